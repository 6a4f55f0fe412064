// Requests that one channel cannot carry, and another can: the one is passed over, whichever comes first.
import t from 'tap'
import type { Test } from 'tap'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { dialects, heard, text } from '../faults/dialect.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { head, reset, Upstream } from '../kit/upstream.ts'

t.setTimeout(600_000)

const turns = [{ role: 'user', content: 'Hi' }]
const tool = { type: 'web_search_20250305', name: 'web_search' }

/** What a client asks that channels of its own protocol alone can carry. */
interface Asking {
  path: (stream: boolean) => string
  body: Record<string, unknown>
  /** A protocol that has no words for it. */
  unable: CodecName
}

const gemini = (stream: boolean): string =>
  `/v1beta/models/${testModel}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`

const asking: Record<CodecName, Asking> = {
  'openai-chat': {
    path: () => '/v1/chat/completions',
    body: { model: testModel, n: 2, messages: turns },
    unable: 'anthropic'
  },
  'openai-responses': {
    path: () => '/v1/responses',
    body: { model: testModel, store: false, input: 'Hi', tools: [{ type: 'web_search' }] },
    unable: 'openai-chat'
  },
  anthropic: {
    path: () => '/v1/messages',
    body: { model: testModel, max_tokens: 9, messages: turns, tools: [tool] },
    unable: 'openai-chat'
  },
  gemini: {
    path: gemini,
    body: { contents: [{ parts: [{ text: 'Hi' }] }], generationConfig: { candidateCount: 2 } },
    unable: 'anthropic'
  }
}

const protocolOf = (name: CodecName): Record<string, unknown> => ({
  protocol: name.startsWith('openai') ? 'openai' : name,
  ...(name.startsWith('openai') && { endpoints: [name === 'openai-chat' ? 'chat' : 'responses'] })
})

interface Bench {
  local: LocalGateway
  unable: Upstream
  able: Upstream
}

/** A channel that cannot carry it, and one that can; the one with the lower priority comes first. */
async function open(
  t: Test,
  client: CodecName,
  { first = 'unable', route = {}, translate = {} }: { first?: string; route?: object; translate?: object } = {}
): Promise<Bench> {
  const [unable, able] = [await Upstream.start(t), await Upstream.start(t)]
  const local = await gateway(
    t,
    {
      channels: {
        unable: { ...protocolOf(asking[client].unable), priority: first === 'unable' ? 0 : 1 },
        able: { ...protocolOf(client), priority: first === 'unable' ? 1 : 0 }
      },
      models: { [testModel]: { price: { input: 1, output: 2, web_search: 0.01 }, max_output_tokens: 1000 } },
      chain: [
        { auth: {} },
        { quota: {} },
        { ratelimit: {} },
        { route: { repeats: 0, ...route } },
        { 'protocol-translate': translate },
        { 'usage-meter': {} },
        { log: { sink: 'none' } }
      ]
    },
    { upstreams: { unable, able } }
  )
  return { local, unable, able }
}

function answers(upstream: Upstream, name: CodecName, stream: boolean): void {
  if (stream) upstream.sse(dialects[name].events, { done: false })
  else upstream.json(dialects[name].whole)
}

for (const client of Object.keys(asking) as CodecName[]) {
  const { path, body, unable: other } = asking[client]
  const send = (local: LocalGateway, stream: boolean, more: object = {}): ReturnType<LocalGateway['ask']> =>
    local.ask({ path: path(stream), body: client === 'gemini' ? { ...body, ...more } : { ...body, stream, ...more } })

  t.test(`${client}: what ${other} cannot be told goes to a channel that can`, async (t) => {
    for (const [first, route] of [
      ['unable', {}],
      ['unable', { attempts: 1, retry_ratio: 0, retry_per_second: 0 }],
      ['able', {}]
    ] as const) {
      const { local, unable, able } = await open(t, client, { first, route })
      for (const stream of [true, false]) {
        answers(able, client, stream)
        const reply = await send(local, stream)
        t.equal(heard(client, reply, stream), text, `${first} first, ${stream}: ${reply.text.slice(0, 200)}`)
        t.match(await local.record(reply), { channel: 'able', outcome: 'completed' })
      }
      t.equal(unable.requests.length, 0)
      await settled(t, local)
    }
  })

  t.test(`${client}: a failure of the one that can is no mistake of the client`, async (t) => {
    for (const first of ['able', 'unable']) {
      const { local, unable, able } = await open(t, client, { first })
      for (const stream of [true, false]) {
        able.json({ error: { message: 'busy' } }, { status: 503 })
        const reply = await send(local, stream)
        t.ok([503, 529].includes(reply.status), `${first} first: ${reply.status} ${reply.text.slice(0, 200)}`)
        able.script(head(200, { 'content-type': 'application/json' }), reset())
        t.equal((await send(local, stream)).status, 502, `${first} first, a reset`)
      }
      t.equal(unable.requests.length, 0)
      const { data } = await local.admin('/admin/v1/channels')
      t.match(data.find(({ name }: { name: string }) => name === 'unable').health, { state: 'healthy', failures: 0 })
      await settled(t, local)
    }
  })
}

t.test('where no channel can, the client is told what cannot be said', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { channels: { only: { protocol: 'anthropic' } } }, { upstreams: { only: upstream } })
  for (const stream of [true, false]) {
    const reply = await local.chat({ n: 2, stream })
    t.equal(reply.status, 400)
    t.match(reply.json().error, { code: 'unsupported_parameter', param: 'n' })
  }
  t.equal(upstream.requests.length, 0)
})

t.test('a large request is looked at by the thread, and goes on likewise', async (t) => {
  const { local, unable, able } = await open(t, 'openai-chat')
  answers(able, 'openai-chat', false)
  const messages = [{ role: 'user', content: 'x'.repeat(300_000) }]
  const reply = await local.chat({ n: 2, messages })
  t.equal(reply.status, 200, reply.text.slice(0, 200))
  t.equal(able.requests[0]!.json().n, 2)
  t.equal(unable.requests.length, 0)
})

t.test('a gateway that leaves nothing out sends a request where nothing has to be left out', async (t) => {
  const { local, unable, able } = await open(t, 'anthropic', { translate: { strict: true } })
  answers(able, 'anthropic', false)
  const reply = await local.ask({
    path: '/v1/messages',
    body: { model: testModel, max_tokens: 9, top_k: 3, messages: turns }
  })
  t.equal(reply.status, 200, reply.text.slice(0, 200))
  t.equal(able.requests[0]!.json().top_k, 3)
  t.equal(unable.requests.length, 0)
})

t.test('embeddings of tokens go to a channel that takes tokens', async (t) => {
  const [unable, able] = [await Upstream.start(t), await Upstream.start(t)]
  const local = await gateway(
    t,
    {
      channels: { unable: { protocol: 'gemini', endpoints: ['embeddings'] }, able: { endpoints: ['embeddings'] } }
    },
    { upstreams: { unable, able } }
  )
  able.json({
    object: 'list',
    model: testModel,
    data: [{ object: 'embedding', index: 0, embedding: [0.1] }],
    usage: { prompt_tokens: 3, total_tokens: 3 }
  })
  const reply = await local.ask({ path: '/v1/embeddings', body: { model: testModel, input: [1, 2, 3] } })
  t.equal(reply.status, 200, reply.text.slice(0, 200))
  t.equal(unable.requests.length, 0)
})
