// Embeddings between clients of one protocol and upstreams of another: the digits of vectors, their order, and what
// cannot be asked.
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { Upstream } from '../kit/upstream.ts'

interface Open {
  local: LocalGateway
  upstream: Upstream
  send(path: string, body: object): Promise<ReceivedReply>
}

async function open(t: Test, protocol: 'openai' | 'gemini', translate: object = {}): Promise<Open> {
  const upstream = await Upstream.start(t)
  const chain = [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 0 } },
    { 'protocol-translate': translate },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
  const local = await gateway(
    t,
    { chain, channels: { a: { protocol, endpoints: ['embeddings'], models: { [testModel]: 'vendor-embed' } } } },
    { upstreams: { a: upstream } }
  )
  const send = (path: string, body: object): Promise<ReceivedReply> =>
    ask(t, local.url, { method: 'POST', path, headers: { authorization: `Bearer ${testKey}` }, body })
  return { local, upstream, send }
}

const path = '/v1/embeddings'
const gemini = (method: string): string => `/v1beta/models/${testModel}:${method}`
/** Digits that a number would lose. */
const answer =
  '{"embeddings":[{"values":[0.10000000000000000001, -1e-7]},{"values" : [\n2,3.50 ]}],"usageMetadata":{"promptTokenCount":7}}'

t.test('from OpenAI to Gemini', async (t) => {
  const { local, upstream, send } = await open(t, 'gemini')
  upstream.json(answer)
  const reply = await send(path, {
    model: testModel,
    input: ['one', 'two'],
    dimensions: 2,
    user: 'me',
    encoding_format: 'float'
  })
  t.match(upstream.requests[0]!.target, /\/models\/vendor-embed:batchEmbedContents$/)
  t.same(upstream.requests[0]!.json(), {
    requests: ['one', 'two'].map((text) => ({
      model: 'models/vendor-embed',
      content: { parts: [{ text }] },
      outputDimensionality: 2
    }))
  })
  t.equal(reply.headers['x-sluice-dropped'], 'user')
  t.match(reply.text, '"embedding":[0.10000000000000000001, -1e-7]')
  t.match(reply.json(), {
    object: 'list',
    model: testModel,
    data: [
      { object: 'embedding', index: 0 },
      { index: 1, embedding: [2, 3.5] }
    ],
    usage: { prompt_tokens: 7, total_tokens: 7 }
  })
  t.match(await local.record(reply), {
    endpoint: 'embeddings',
    channel_protocol: 'gemini',
    usage: { input: 7, output: 0 },
    usage_source: 'upstream'
  })

  upstream.json(answer.replace(',"usageMetadata":{"promptTokenCount":7}', ''))
  const packed = await send(path, { model: testModel, input: ['one', 'two'], encoding_format: 'base64' })
  const vector = Buffer.from(packed.json().data[1].embedding, 'base64')
  t.same([vector.length, vector.readFloatLE(0), vector.readFloatLE(4)], [8, 2, 3.5])
  t.match(await local.record(packed), { usage_source: 'estimated' })
})

t.test('from Gemini to OpenAI, one text and several', async (t) => {
  const { local, upstream, send } = await open(t, 'openai')
  const vectors =
    '{"object":"list","data":[{"index":1,"embedding":[2,3]},{"index":0,"embedding":[0.10000000000000000001]}],"model":"vendor-embed","usage":{"prompt_tokens":4,"total_tokens":4}}'
  upstream.json(vectors)
  const content = (text: string): object => ({ parts: [{ text }] })
  const batch = await send(gemini('batchEmbedContents'), {
    requests: [
      { model: `models/${testModel}`, content: content('one'), taskType: 'RETRIEVAL_QUERY' },
      { content: content('two') }
    ]
  })
  t.same(upstream.requests[0]!.json(), { model: 'vendor-embed', input: ['one', 'two'], encoding_format: 'float' })
  t.equal(
    batch.text,
    '{"embeddings":[{"values":[0.10000000000000000001]},{"values":[2,3]}],"usageMetadata":{"promptTokenCount":4}}'
  )
  t.equal(batch.headers['x-sluice-dropped'], 'requests[].taskType')
  t.match(await local.record(batch), {
    endpoint: 'generate.batchEmbedContents',
    channel_protocol: 'openai',
    usage: { input: 4 },
    usage_source: 'upstream'
  })
  // Zero and three halves in base64, which was not asked for.
  upstream.json({ object: 'list', data: [{ index: 0, embedding: 'AAAAAAAAwD8=' }] })
  const one = await send(gemini('embedContent'), {
    content: { parts: [{ text: 'a' }, { text: 'b' }] },
    output_dimensionality: 2
  })
  t.same(upstream.requests[1]!.json(), {
    model: 'vendor-embed',
    input: ['a\nb'],
    encoding_format: 'float',
    dimensions: 2
  })
  t.same(one.json(), { embedding: { values: [0, 1.5] } })
})

t.test('what cannot be asked is refused before anybody is asked', async (t) => {
  const theirs = await open(t, 'gemini', { strict: true })
  const refused = async (one: Open, where: string, body: object): Promise<unknown> => {
    const reply = await one.send(where, body)
    t.equal(one.upstream.requests.length, 0)
    return [reply.status, reply.json().error.param ?? reply.json().error.status]
  }
  t.same(await refused(theirs, path, { model: testModel, input: [[1, 2]] }), [400, 'input'])
  t.same(await refused(theirs, path, { model: testModel, input: [1, 2] }), [400, 'input'])
  t.same(await refused(theirs, path, { model: testModel, input: [] }), [400, 'input'])
  t.same(await refused(theirs, path, { model: testModel, input: 'x', dimensions: 1.5 }), [400, 'dimensions'])
  t.same(
    await refused(theirs, path, { model: testModel, input: 'x', user: 'me' }),
    [400, 'user'],
    'nothing is left out where that is so'
  )
  const ours = await open(t, 'openai')
  const picture = { parts: [{ inlineData: { mimeType: 'image/png', data: '' } }] }
  t.same(await refused(ours, gemini('embedContent'), { content: picture }), [400, 'INVALID_ARGUMENT'])
  t.same(await refused(ours, gemini('embedContent'), {}), [400, 'INVALID_ARGUMENT'])
  const sized = (outputDimensionality: number): object => ({
    content: { parts: [{ text: 'x' }] },
    outputDimensionality
  })
  t.same(await refused(ours, gemini('batchEmbedContents'), { requests: [sized(1), sized(2)] }), [
    400,
    'INVALID_ARGUMENT'
  ])
  t.same(await refused(ours, gemini('batchEmbedContents'), { requests: Array.from({ length: 101 }, () => sized(1)) }), [
    400,
    'INVALID_ARGUMENT'
  ])
})

t.test('an answer with other vectors than were asked for is none', async (t) => {
  const { upstream, send } = await open(t, 'gemini')
  for (const wrong of [
    '{"embeddings":[]}',
    answer,
    '{"embeddings":[{"values":"x"}]}',
    '{"embeddings":[{}]}',
    '{"embeddings":[{"values":[1,"x"]}]}'
  ]) {
    upstream.json(wrong)
    const reply = await send(path, { model: testModel, input: 'one' })
    t.match([reply.status, reply.json().error.code], [502, 'upstream_bad_response'], wrong)
  }
})
