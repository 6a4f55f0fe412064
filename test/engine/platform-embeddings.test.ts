// Vectors of models on Amazon Bedrock and Vertex AI, each against a scripted platform that takes nothing else: requests
// one after the other, digits, tokens, and what cannot be asked.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { awsRegion, scriptedBedrock, withAwsKeys } from '../kit/bedrock.ts'
import type { BedrockAnswer, BedrockAsked, ScriptedBedrock } from '../kit/bedrock.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { scriptedVertex } from '../kit/platforms.ts'
import type { Platform, PlatformAsked } from '../kit/platforms.ts'

type Json = Record<string, any>

const price = { input: 2, output: 0 }
const path = '/v1/embeddings'
const tokens = (count: number): Record<string, string> => ({ 'x-amzn-bedrock-input-token-count': String(count) })

/** Answers with one number for each text: its length, and a digit that a number would lose. */
const titan = ({ body }: BedrockAsked): BedrockAnswer => ({
  json: { embedding: [body['inputText'].length, 0.5], inputTextTokenCount: 3 },
  headers: tokens(3)
})
const cohere = ({ body }: BedrockAsked): BedrockAnswer => ({
  json: {
    id: 'e1',
    response_type: 'embeddings_floats',
    embeddings: (body['texts'] as string[]).map((text) => [text.length, -1.5]),
    texts: body['texts']
  },
  headers: tokens(body['texts'].length * 2)
})

async function onBedrock(
  t: Test,
  answer: (asked: BedrockAsked) => BedrockAnswer,
  models: Record<string, string>,
  more: Json = {},
  chain: Json = {}
): Promise<LocalGateway & { bedrock: ScriptedBedrock }> {
  withAwsKeys(t)
  const bedrock = await scriptedBedrock(t, answer)
  const up = {
    preset: 'bedrock',
    protocol: 'bedrock',
    base_url: bedrock.url,
    private: true,
    credential: { aws: { region: awsRegion } },
    models,
    ...more
  }
  const local = await gateway(t, {
    channels: { up },
    models: Object.fromEntries(Object.keys(models).map((model) => [model, { price }])),
    ...chain
  })
  return Object.assign(local, { bedrock })
}

/** A chain in which a channel that failed is asked once more. */
const again = {
  chain: [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 1 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
}

const asked = (local: LocalGateway, where: string, body: Json): Promise<ReceivedReply> =>
  local.ask({ path: where, headers: { authorization: `Bearer ${testKey}` }, body })

t.test('Titan is asked for one text after the other, and charged for all of them', async (t) => {
  const local = await onBedrock(t, titan, { v: 'amazon.titan-embed-text-v2:0' })
  const reply = await asked(local, path, { model: 'v', input: ['a', 'bcd', 'ef'], dimensions: 256, user: 'me' })
  t.match(reply.json(), {
    object: 'list',
    model: 'v',
    data: [
      { index: 0, embedding: [1, 0.5] },
      { index: 1, embedding: [3, 0.5] },
      { index: 2, embedding: [2, 0.5] }
    ],
    usage: { prompt_tokens: 9, total_tokens: 9 }
  })
  t.equal(reply.headers['x-sluice-dropped'], 'user')
  t.strictSame(
    local.bedrock.asked.map(({ path, body }) => [path, body]),
    ['a', 'bcd', 'ef'].map((inputText) => [
      '/model/amazon.titan-embed-text-v2%3A0/invoke',
      { inputText, dimensions: 256 }
    ])
  )
  t.match(await local.record(reply), {
    endpoint: 'embeddings',
    outcome: 'completed',
    usage: { input: 9, output: 0 },
    usage_source: 'upstream',
    cost_nano: '18000'
  })
  const packed = await asked(local, path, { model: 'v', input: 'four', encoding_format: 'base64' })
  const vector = Buffer.from(packed.json().data[0].embedding, 'base64')
  t.same([vector.length, vector.readFloatLE(0), vector.readFloatLE(4)], [8, 4, 0.5])
  const batch = await asked(local, '/v1beta/models/v:batchEmbedContents', {
    requests: ['x', 'yz'].map((text) => ({ content: { parts: [{ text }] }, taskType: 'RETRIEVAL_QUERY' }))
  })
  t.same(batch.json(), {
    embeddings: [{ values: [1, 0.5] }, { values: [2, 0.5] }],
    usageMetadata: { promptTokenCount: 6 }
  })
  t.equal(batch.headers['x-sluice-dropped'], 'requests[].taskType')
})

t.test('each text of a batch is asked for as it is, whatever it looks like', async (t) => {
  const local = await onBedrock(t, titan, { v: 'amazon.titan-embed-text-v2:0' })
  const texts = ['"},{"inputText":"b"}]', '\\', '\\"', '[[[', '}}}', '\u2028\n\t', '"', 'é😀']
  const property = fc.asyncProperty(
    fc.array(fc.oneof(fc.constantFrom(...texts), fc.string({ unit: 'grapheme', minLength: 1 })), {
      minLength: 1,
      maxLength: 12
    }),
    async (input) => {
      local.bedrock.asked.length = 0
      const reply = await asked(local, path, { model: 'v', input })
      if (reply.status !== 200) throw new Error(reply.body.toString())
      const got = local.bedrock.asked.map(({ body }) => (body as Json)['inputText'])
      if (JSON.stringify(got) !== JSON.stringify(input)) throw new Error(`asked for ${JSON.stringify(got)}`)
    }
  )
  await fc.assert(property, { numRuns: 40, examples: [[texts]] })
  t.pass('of forty batches')
})

t.test('Cohere is told what the vectors are for, and gets 96 texts at a time', async (t) => {
  const local = await onBedrock(t, cohere, { v: 'us.cohere.embed-v4:0', old: 'cohere.embed-english-v3' })
  const input = Array.from({ length: 100 }, (_, at) => (at === 7 ? '[1, 2] "[3]"' : 'x'.repeat(at + 1)))
  const reply = await asked(local, path, { model: 'v', input, dimensions: 512, input_type: 'query' })
  t.same(
    reply.json().data.map(({ embedding }: Json) => embedding),
    input.map(({ length }) => [length, -1.5])
  )
  t.match(
    local.bedrock.asked.map(({ body }) => [body['texts'].length, body['input_type'], body['output_dimension']]),
    [
      [96, 'search_query', 512],
      [4, 'search_query', 512]
    ]
  )
  t.match(await local.record(reply), { usage: { input: 200 }, usage_source: 'upstream', cost_nano: '400000' })
  await asked(local, path, { model: 'old', input: 'x' })
  t.match(local.bedrock.asked.at(-1)!.body, { input_type: 'search_document' }, 'documents unless said')
  const one = await asked(local, '/v1beta/models/v:embedContent', {
    content: { parts: [{ text: 'hello' }] },
    taskType: 'CLUSTERING'
  })
  t.same(one.json(), { embedding: { values: [5, -1.5] }, usageMetadata: { promptTokenCount: 2 } })
  t.match(local.bedrock.asked.at(-1)!.body, { input_type: 'clustering' })
})

t.test('what a model of Bedrock cannot do is refused by its name, before anybody is asked', async (t) => {
  const local = await onBedrock(t, titan, {
    v1: 'amazon.titan-embed-text-v1',
    v2: 'amazon.titan-embed-text-v2:0',
    co: 'cohere.embed-multilingual-v3',
    chat: 'us.amazon.nova-pro-v1:0'
  })
  const refused = async (body: Json, where = path): Promise<unknown> => {
    const reply = await asked(local, where, body)
    return [reply.status, reply.json().error.param ?? reply.json().error.message]
  }
  t.same(await refused({ model: 'v1', input: 'x', dimensions: 256 }), [400, 'dimensions'])
  t.same(await refused({ model: 'v2', input: 'x', dimensions: 300 }), [400, 'dimensions'])
  t.same(await refused({ model: 'co', input: 'x', dimensions: 256 }), [400, 'dimensions'])
  t.same(await refused({ model: 'co', input: 'x', input_type: 'image' }), [400, 'input_type'])
  t.same(await refused({ model: 'v2', input: [[1, 2]] }), [400, 'input'])
  t.same(await refused({ model: 'v2', input: Array.from({ length: 101 }, () => 'x') }), [400, 'input'])
  t.match(await refused({ model: 'chat', input: 'x' }), [400, 'model'])
  const purpose = { content: { parts: [{ text: 'x' }] }, taskType: 'SEMANTIC_SIMILARITY' }
  t.match(await refused(purpose, '/v1beta/models/co:embedContent'), [400, /RETRIEVAL_QUERY/])
  t.equal(local.bedrock.asked.length, 0)
})

t.test('models of an ARN are whose the channel says, and what breaks in mid-series is an error', async (t) => {
  const arn = 'arn:aws:bedrock:us-east-1:1:application-inference-profile/abc'
  let count = 0
  const local = await onBedrock(
    t,
    (one) =>
      ++count === 3
        ? { status: 429, json: { message: 'Slow down' }, headers: { 'x-amzn-errortype': 'ThrottlingException' } }
        : titan(one),
    { v: arn },
    { traits: { vectors: 'single' }, endpoints: ['embeddings'] }
  )
  const reply = await asked(local, path, { model: 'v', input: ['a', 'b', 'c', 'd'] })
  t.equal(reply.status, 429)
  t.equal(local.bedrock.asked.length, 3, 'nothing is sent after it')
  t.match((await asked(local, path, { model: 'v', input: ['a', 'b'] })).json(), { data: [{}, {}] })
  t.equal(local.bedrock.asked.at(-1)!.model, arn)
})

t.test('what was answered before a series broke off is not asked for again, and charged once', async (t) => {
  for (const broken of [
    { status: 500, json: { message: 'Oops' } },
    { frames: [], cut: true },
    { frames: [Buffer.from('<html>')] },
    { frames: [] },
    { frames: [Buffer.from('{"embedding":[1')] },
    { json: 'none' }
  ] as BedrockAnswer[]) {
    let count = 0
    const model = { v: 'amazon.titan-embed-text-v2:0' }
    const local = await onBedrock(t, (one) => (++count === 3 ? broken : titan(one)), model, {}, again)
    const reply = await asked(local, path, { model: 'v', input: ['a', 'bc', 'def', 'ghij'] })
    t.same(
      reply.json().data.map(({ embedding }: Json) => embedding[0]),
      [1, 2, 3, 4]
    )
    t.same(
      local.bedrock.asked.map(({ body }) => body['inputText']),
      ['a', 'bc', 'def', 'def', 'ghij']
    )
    const record = await local.record(reply)
    t.match(record, { usage: { input: 12 }, usage_source: 'upstream', cost_nano: '24000' })
    t.match((await asked(local, path, { model: 'v', input: ['a', 'bc', 'def', 'ghij'] })).json(), { data: [{}, {}] })
    t.equal(local.bedrock.asked.length, 9, 'another request begins with its first text')
  }
})

t.test('a series that fails for good costs its client nothing, and what the upstream made is known', async (t) => {
  const local = await onBedrock(
    t,
    (one) => (one.body['inputText'] === 'c' ? { status: 500, json: { message: 'Oops' } } : titan(one)),
    { v: 'amazon.titan-embed-text-v2:0' },
    { cost: { of: 'price' } },
    again
  )
  const reply = await asked(local, path, { model: 'v', input: ['a', 'b', 'c', 'd'] })
  t.ok(reply.status >= 500)
  t.same(
    local.bedrock.asked.map(({ body }) => body['inputText']),
    ['a', 'b', 'c', 'c']
  )
  const record = await local.record(reply)
  t.match(record, { cost_nano: '0', usage: { input: 6 }, usage_source: 'partial' })
  t.match(record.attempts, [{ status: 500 }, { status: 500 }])
})

t.test('models of other names are asked for all of it', async (t) => {
  withAwsKeys(t)
  const broken = await scriptedBedrock(t, (one) =>
    one.body['inputText'] === 'b' ? { status: 500, json: { message: 'Oops' } } : titan(one)
  )
  const well = await scriptedBedrock(t, titan)
  const at = (url: string, priority: number, model: string): Json => ({
    preset: 'bedrock',
    protocol: 'bedrock',
    base_url: url,
    private: true,
    priority,
    credential: { aws: { region: awsRegion } },
    models: { v: model }
  })
  const same = 'amazon.titan-embed-text-v2:0'
  for (const [other, expected] of [
    [same, ['b', 'c']],
    ['amazon.titan-embed-text-v1', ['a', 'b', 'c']]
  ] as const) {
    well.asked.length = broken.asked.length = 0
    const local = await gateway(t, {
      channels: { first: at(broken.url, 0, same), second: at(well.url, 1, other) },
      models: { v: { price } }
    })
    const reply = await asked(local, path, { model: 'v', input: ['a', 'b', 'c'] })
    t.equal(reply.status, 200)
    t.same(
      well.asked.map(({ body }) => body['inputText']),
      expected
    )
    t.match(await local.record(reply), { usage: { input: 9 }, cost_nano: '18000' })
  }
})

t.test(
  'without a header the tokens of Cohere are estimated, and an answer that has too few vectors is none',
  async (t) => {
    let few = false
    const local = await onBedrock(
      t,
      (one) => {
        const { json } = cohere(one) as { json: Json }
        return { json: few ? { ...json, embeddings: [] } : json }
      },
      { v: 'cohere.embed-english-v3' }
    )
    const reply = await asked(local, path, { model: 'v', input: 'some text' })
    t.match(await local.record(reply), { usage_source: 'estimated' })
    few = true
    t.match((await asked(local, path, { model: 'v', input: 'x' })).json().error.code, 'upstream_bad_response')
  }
)

/** A Vertex AI, and a gateway whose models are its own. */
async function onVertex(t: Test, models: readonly string[]): Promise<LocalGateway & { vertex: Platform }> {
  const answer = ({ path, body }: PlatformAsked): { json: unknown } =>
    path.endsWith(':embedContent')
      ? {
          json: {
            embedding: { values: [body['content'].parts[0].text.length, 0.25] },
            usageMetadata: { promptTokenCount: 4 }
          }
        }
      : {
          json: {
            predictions: (body['instances'] as Json[]).map(({ content }) => ({
              embeddings: { values: [content.length, 0.25], statistics: { truncated: false, token_count: 5 } }
            })),
            metadata: { billableCharacterCount: 7 }
          }
        }
  const vertex = await scriptedVertex(t, answer)
  const local = await gateway(
    t,
    {
      channels: {
        up: {
          preset: 'vertex',
          protocol: 'gemini',
          base_url: `${vertex.url}/v1/projects/p/locations/europe-west4`,
          private: true,
          credential: { gcp: {} },
          models: Object.fromEntries(models.map((model) => [model, model]))
        }
      },
      models: Object.fromEntries(models.map((model) => [model, { price }]))
    },
    { env: { GCE_METADATA_HOST: vertex.url.slice('http://'.length), HOME: t.testdir() } }
  )
  return Object.assign(local, { vertex })
}

t.test('Vertex AI predicts vectors of the text models, and embeds contents with the newer ones', async (t) => {
  const models = ['text-embedding-005', 'gemini-embedding-001', 'gemini-embedding-2']
  const local = await onVertex(t, models)
  const below = '/v1/projects/p/locations/europe-west4/publishers/google/models'
  const [text, first, second] = models as [string, string, string]
  const several = await asked(local, path, {
    model: text,
    input: ['a', 'bc'],
    dimensions: 128,
    input_type: 'search_query'
  })
  t.match(several.json(), { data: [{ embedding: [1, 0.25] }, { embedding: [2, 0.25] }], usage: { prompt_tokens: 10 } })
  t.strictSame(
    local.vertex.asked.map(({ path, body }) => [path, body]),
    [
      [
        `${below}/${text}:predict`,
        {
          instances: ['a', 'bc'].map((content) => ({ content, task_type: 'RETRIEVAL_QUERY' })),
          parameters: { outputDimensionality: 128 }
        }
      ]
    ]
  )
  t.match(await local.record(several), { usage: { input: 10 }, usage_source: 'upstream', cost_nano: '20000' })

  local.vertex.asked.length = 0
  t.match((await asked(local, path, { model: first, input: ['a', 'bc'] })).json(), {
    data: [{}, { embedding: [2, 0.25] }]
  })
  t.equal(local.vertex.asked.length, 2, 'it takes one text at a time')

  local.vertex.asked.length = 0
  const batch = await asked(local, `/v1beta/models/${second}:batchEmbedContents`, {
    requests: [
      { content: { parts: [{ text: 'abc' }] }, taskType: 'RETRIEVAL_DOCUMENT', title: 'One' },
      { content: { parts: [{ text: 'd' }] } }
    ]
  })
  t.same(batch.json(), {
    embeddings: [{ values: [3, 0.25] }, { values: [1, 0.25] }],
    usageMetadata: { promptTokenCount: 8 }
  })
  t.strictSame(
    local.vertex.asked.map(({ path, body }) => [path, body]),
    [
      [
        `${below}/${second}:embedContent`,
        { content: { parts: [{ text: 'abc' }] }, taskType: 'RETRIEVAL_DOCUMENT', title: 'One' }
      ],
      [`${below}/${second}:embedContent`, { content: { parts: [{ text: 'd' }] } }]
    ]
  )
  t.match(await local.record(batch), { usage: { input: 8 }, usage_source: 'upstream' })
})
