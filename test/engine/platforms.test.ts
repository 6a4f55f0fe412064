// Models of one vendor on the platforms of others, each against a scripted one that takes nothing else.
import t from 'tap'
import type { Test } from 'tap'
import { scriptedBedrock, awsRegion, withAwsKeys } from '../kit/bedrock.ts'
import type { BedrockAnswer } from '../kit/bedrock.ts'
import { eventFrame, exceptionFrame } from '../kit/event-stream.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { scriptedAzure, scriptedVertex } from '../kit/platforms.ts'
import { chatAnswer } from '../kit/workbench.ts'

type Json = Record<string, any>

const price = { price: { input: 1, output: 2 } }
const text = 'Wörter: 漢字 und 😀.'
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  content: [{ type: 'text', text }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 6 }
}
const messageEvents: Json[] = [
  {
    type: 'message_start',
    message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 9, output_tokens: 1 } }
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  ...Array.from(text, (piece) => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: piece }
  })),
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 6 } },
  { type: 'message_stop', 'amazon-bedrock-invocationMetrics': { inputTokenCount: 9, outputTokenCount: 7 } }
]
const chunks = messageEvents.map((event) =>
  eventFrame('chunk', { bytes: Buffer.from(JSON.stringify(event)).toString('base64'), p: 'abcdef' })
)
const plainEvents = messageEvents.map((event, at) =>
  at === messageEvents.length - 1 ? { type: 'message_stop' } : event
)
const sse = plainEvents.map((event) => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`).join('')

const asMessages = (
  local: LocalGateway,
  more: Json = {},
  headers: Record<string, string> = {}
): ReturnType<LocalGateway['ask']> =>
  local.ask({
    path: '/v1/messages',
    headers: { 'x-api-key': testKey, 'anthropic-version': '2023-06-01', ...headers },
    body: { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }], ...more }
  })

async function invoking(
  t: Test,
  answer: (operation: string) => BedrockAnswer
): Promise<Awaited<ReturnType<typeof gateway>> & { bedrock: Awaited<ReturnType<typeof scriptedBedrock>> }> {
  withAwsKeys(t)
  const bedrock = await scriptedBedrock(t, ({ operation }) => answer(operation))
  const channel = {
    preset: 'bedrock-claude',
    protocol: 'anthropic',
    base_url: bedrock.url,
    private: true,
    credential: { aws: { region: awsRegion } },
    headers: { 'x-amzn-bedrock-guardrailidentifier': 'g1', 'x-amzn-bedrock-guardrailversion': '2' },
    models: { m: 'us.anthropic.claude-x-v1:0' }
  }
  const local = await gateway(t, { channels: { up: channel }, models: { m: price } })
  return Object.assign(local, { bedrock })
}

t.test('Claude by invocation: what a Messages client sends and gets, in the words of the platform', async (t) => {
  const local = await invoking(t, (operation) => (operation === 'invoke' ? { json: message } : { frames: chunks }))
  const whole = await asMessages(local, {}, { 'anthropic-beta': 'one-2026-01-01, two-2026-01-01' })
  t.match(whole.json(), { content: [{ text }], model: 'm', usage: { output_tokens: 6 } })
  const [asked] = local.bedrock.asked
  t.strictSame(asked!.body, {
    anthropic_version: 'bedrock-2023-05-31',
    anthropic_beta: ['one-2026-01-01', 'two-2026-01-01'],
    max_tokens: 50,
    messages: [{ role: 'user', content: 'Hi' }]
  })
  t.equal(asked!.path, '/model/us.anthropic.claude-x-v1%3A0/invoke')
  t.equal(asked!.headers['anthropic-beta'], undefined)
  const streamed = await asMessages(local, { stream: true })
  t.equal(streamed.text, sse.replace('"claude-x"', '"m"'), 'as the vendor itself would stream it')
  t.match(streamed.headers['content-type'], /^text\/event-stream/)
  t.match(local.bedrock.asked[1], { operation: 'invoke-with-response-stream', headers: { accept: /eventstream/ } })
  t.strictSame(Object.keys(local.bedrock.asked[1]!.body).sort(), ['anthropic_version', 'max_tokens', 'messages'])
  t.match(await local.record(streamed), {
    outcome: 'completed',
    usage: { input: 9, output: 6 },
    usage_source: 'upstream'
  })
})

t.test('Claude by invocation for clients of other protocols, and at every byte', async (t) => {
  let frames: readonly Buffer[] = chunks
  const local = await invoking(t, (operation) => (operation === 'invoke' ? { json: message } : { frames }))
  const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
  t.match((await local.chat(chat)).json(), { choices: [{ message: { content: text }, finish_reason: 'stop' }] })
  t.notOk('model' in local.bedrock.asked[0]!.body || 'stream' in local.bedrock.asked[0]!.body)
  const bytes = Buffer.concat(chunks)
  frames = Array.from({ length: bytes.length }, (_, at) => bytes.subarray(at, at + 1))
  t.equal((await asMessages(local, { stream: true })).text, sse.replace('"claude-x"', '"m"'))
  for (const sign of ['\n', '\r', '\r\n']) {
    const written = JSON.stringify(messageEvents[1]).replaceAll(',', `,${sign}`)
    frames = chunks.with(1, eventFrame('chunk', { bytes: Buffer.from(written).toString('base64') }))
    const streamed = await asMessages(local, { stream: true })
    t.equal(streamed.text, sse.replace('"claude-x"', '"m"'), `an event has one line: ${JSON.stringify(sign)}`)
  }
  frames = [...chunks.slice(0, 5), exceptionFrame('modelStreamErrorException', 'Lost it')]
  const lost = await asMessages(local, { stream: true })
  t.match(lost.text, /"type":"error".*Lost it/)
  t.notMatch(lost.text, /message_stop/)
  frames = chunks.slice(0, -1)
  t.match((await asMessages(local, { stream: true })).text, /ended its answer before it was complete/)
})

t.test('Vertex: Claude as predictions and Gemini, by region and globally', async (t) => {
  const vertex = await scriptedVertex(t, ({ path }) => {
    if (path.includes('/google/'))
      return {
        json: {
          candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP' }],
          usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 6, totalTokenCount: 15, trafficType: 'ON_DEMAND' }
        }
      }
    if (path.includes('count-tokens')) return { json: { input_tokens: 12 } }
    return path.includes('stream') ? { sse } : { json: message }
  })
  const at = (location: string): Json => ({
    base_url: `${vertex.url}/v1/projects/p/locations/${location}`,
    private: true,
    credential: { gcp: {} }
  })
  const local = await gateway(
    t,
    {
      channels: {
        claude: {
          preset: 'vertex-claude',
          protocol: 'anthropic',
          ...at('europe-west4'),
          models: { m: 'claude-x@20250514' }
        },
        gemini: { preset: 'vertex', protocol: 'gemini', ...at('global'), models: { g: 'gemini-x' } }
      },
      models: { m: price, g: price }
    },
    { env: { GCE_METADATA_HOST: vertex.url.slice('http://'.length), HOME: t.testdir() } }
  )
  t.match((await asMessages(local, {}, { 'anthropic-beta': 'one-2026-01-01' })).json(), { content: [{ text }] })
  const below = '/v1/projects/p/locations/europe-west4/publishers/anthropic/models'
  t.match(vertex.asked[0], {
    path: `${below}/claude-x@20250514:rawPredict`,
    headers: { 'anthropic-beta': 'one-2026-01-01' },
    body: { anthropic_version: 'vertex-2023-10-16', max_tokens: 50 }
  })
  t.equal((await asMessages(local, { stream: true })).text, sse.replace('"claude-x"', '"m"'))
  const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
  t.match((await local.chat({ ...chat, stream: true })).text, /\[DONE\]/)
  const counted = await local.ask({
    path: '/v1/messages/count_tokens',
    headers: { 'x-api-key': testKey },
    body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.strictSame(counted.json(), { input_tokens: 12 })
  t.match(vertex.asked.at(-1), { path: `${below}/count-tokens:rawPredict`, body: { model: 'claude-x@20250514' } })
  t.match((await local.chat({ ...chat, model: 'g' })).json(), { choices: [{ message: { content: text } }] })
  t.equal(
    vertex.asked.at(-1)!.path,
    '/v1/projects/p/locations/global/publishers/google/models/gemini-x:generateContent'
  )
})

t.test('Azure: deployments and the newer address, by key and by a token of Entra', async (t) => {
  const azure = await scriptedAzure(t, 'scripted-azure-key', () => ({ json: chatAnswer() }))
  const entra = {
    azure: { tenant: 'tenant-1', client_id: 'app', client_secret: 'scripted-client-secret', authority: azure.url }
  }
  const channel = (preset: string, credential: unknown, model: string): Json => ({
    preset,
    protocol: 'openai',
    base_url: `${azure.url}/openai${preset === 'azure' ? '' : '/v1'}`,
    private: true,
    credential,
    models: { [model]: 'my-deployment' }
  })
  const local = await gateway(t, {
    channels: {
      a: channel('azure', 'scripted-azure-key', 'a'),
      b: channel('azure', entra, 'b'),
      c: channel('azure-v1', 'scripted-azure-key', 'c'),
      d: channel('azure-v1', entra, 'd')
    },
    models: { a: price, b: price, c: price, d: price }
  })
  for (const model of ['a', 'b', 'c', 'd'])
    t.equal((await local.chat({ model, messages: [{ role: 'user', content: 'Hi' }] })).status, 200, model)
  t.equal(azure.asked.length, 4)
})

t.test(
  'Bedrock counts tokens, for clients of Messages and of Gemini, and what it cannot count is estimated',
  async (t) => {
    withAwsKeys(t)
    const bedrock = await scriptedBedrock(t, ({ model }) =>
      model.includes('llama')
        ? {
            status: 400,
            json: { message: "The provided model doesn't support counting tokens." },
            headers: { 'x-amzn-errortype': 'ValidationException' }
          }
        : { json: { inputTokens: 17 } }
    )
    const at = { base_url: bedrock.url, private: true, credential: { aws: { region: awsRegion } } }
    const local = await gateway(t, {
      channels: {
        converse: {
          preset: 'bedrock',
          protocol: 'bedrock',
          ...at,
          models: { n: 'us.amazon.nova-x-v1:0', l: 'meta.llama-x-v1:0' }
        },
        invoked: {
          preset: 'bedrock-claude',
          protocol: 'anthropic',
          ...at,
          models: { m: 'global.anthropic.claude-x-v1:0' }
        }
      },
      models: { n: price, l: price, m: price }
    })
    const counted = (model: string, more: Json = {}): ReturnType<LocalGateway['ask']> =>
      local.ask({
        path: '/v1/messages/count_tokens',
        headers: { 'x-api-key': testKey, 'anthropic-version': '2023-06-01' },
        body: { model, messages: [{ role: 'user', content: 'Hi' }], ...more }
      })
    const tools = [{ name: 'look', input_schema: { type: 'object' } }]
    const reply = await counted('n', { system: 'Be brief.', tools })
    t.strictSame([reply.json(), reply.headers['x-sluice-estimate']], [{ input_tokens: 17 }, undefined])
    t.strictSame(
      [bedrock.asked[0]!.path, bedrock.asked[0]!.body],
      [
        '/model/amazon.nova-x-v1%3A0/count-tokens',
        {
          input: {
            converse: {
              messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
              system: [{ text: 'Be brief.' }],
              toolConfig: { tools: [{ toolSpec: { name: 'look', inputSchema: { json: { type: 'object' } } } }] }
            }
          }
        }
      ]
    )
    t.match(await local.record(reply), { endpoint: 'messages.count_tokens', status: 200, cost_nano: '0' })
    const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
    for (const body of [{ contents }, { generateContentRequest: { model: 'models/n', contents } }]) {
      const told = await local.ask({
        path: '/v1beta/models/n:countTokens',
        headers: { authorization: `Bearer ${testKey}` },
        body
      })
      t.strictSame(told.json(), { totalTokens: 17 })
      t.strictSame(bedrock.asked.at(-1)!.body, {
        input: { converse: { messages: [{ role: 'user', content: [{ text: 'Hi' }] }] } }
      })
    }
    t.strictSame((await counted('m')).json(), { input_tokens: 17 })
    t.equal(bedrock.asked.at(-1)!.path, '/model/anthropic.claude-x-v1%3A0/count-tokens')
    const { body } = bedrock.asked.at(-1)!.body['input'].invokeModel
    t.strictSame(JSON.parse(Buffer.from(body, 'base64').toString('utf8')), {
      max_tokens: 1,
      anthropic_version: 'bedrock-2023-05-31',
      messages: [{ role: 'user', content: 'Hi' }]
    })
    const estimated = await counted('l')
    t.match([estimated.status, estimated.json(), estimated.headers['x-sluice-estimate']], [200, {}, 'input_tokens'])
    t.ok(estimated.json().input_tokens > 0)
  }
)
