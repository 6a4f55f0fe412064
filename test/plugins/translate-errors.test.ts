// Errors of an upstream as clients of another protocol see them: in their own words, with what their libraries and
// agents act on.
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { endOfBody, events, head, reset, Upstream } from '../kit/upstream.ts'

type Json = any

const families = ['openai', 'anthropic', 'gemini'] as const
type Family = (typeof families)[number]

interface Rig {
  local: LocalGateway
  upstreams: Record<Family, Upstream>
}

async function open(t: Test): Promise<Rig> {
  const upstreams = {
    openai: await Upstream.start(t),
    anthropic: await Upstream.start(t),
    gemini: await Upstream.start(t)
  }
  const channels = Object.fromEntries(
    families.map((family) => [family, { protocol: family, models: { [`via-${family}`]: 'up' } }])
  )
  const models = Object.fromEntries(families.map((family) => [`via-${family}`, { price: { input: 1, output: 2 } }]))
  return { local: await gateway(t, { channels, models }, { upstreams }), upstreams }
}

const asking: Readonly<Record<string, (model: string, stream: boolean) => { path: string; body: Json }>> = {
  chat: (model, stream) => ({
    path: '/v1/chat/completions',
    body: { model, stream, messages: [{ role: 'user', content: 'Hi' }] }
  }),
  responses: (model, stream) => ({ path: '/v1/responses', body: { model, stream, input: 'Hi' } }),
  messages: (model, stream) => ({
    path: '/v1/messages',
    body: { model, stream, max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
  }),
  gemini: (model, stream) => ({
    path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    body: { contents: [{ parts: [{ text: 'Hi' }] }] }
  })
}

/** An error as the upstream of each family says it. */
const said: Readonly<Record<Family, (status: number, message: string, type?: string) => Json>> = {
  openai: (_status, message, type) => ({
    error: { message, type: type ?? 'invalid_request_error', param: 'messages', code: null }
  }),
  anthropic: (_status, message, type) => ({
    type: 'error',
    error: { type: type ?? 'invalid_request_error', message },
    request_id: 'req_1'
  }),
  gemini: (code, message) => ({ error: { code, message, status: 'INVALID_ARGUMENT' } })
}

async function ask({ local }: Rig, client: string, family: Family, stream = false): Promise<Json> {
  const reply = await local.ask({
    headers: { authorization: `Bearer ${testKey}` },
    ...asking[client]!(`via-${family}`, stream)
  })
  return { status: reply.status, headers: reply.headers, body: JSON.parse(reply.text) }
}

t.test('a prompt that is too long is one by the sign that each client knows, whichever upstream says so', async (t) => {
  const rig = await open(t)
  const words: Readonly<Record<Family, string>> = {
    openai: "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
    anthropic: 'prompt is too long: 210000 tokens > 200000 maximum',
    gemini: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).'
  }
  const signs: Readonly<Record<string, object>> = {
    chat: { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } },
    responses: { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } },
    messages: { type: 'error', error: { type: 'invalid_request_error', message: /prompt is too long/ } },
    gemini: { error: { code: 400, status: 'INVALID_ARGUMENT' } }
  }
  for (const family of families) {
    for (const [client, sign] of Object.entries(signs)) {
      rig.upstreams[family].json(said[family](400, words[family]), { status: 400 })
      const { status, body } = await ask(rig, client, family)
      t.equal(status, 400)
      t.match(body, sign, `${client} by way of ${family}`)
      t.match(body.error.message, words[family])
    }
  }
})

t.test("another vendor's kinds of errors, and members that the client never sent, are not told", async (t) => {
  const rig = await open(t)
  rig.upstreams.anthropic.json(said.anthropic(413, 'big', 'request_too_large'), { status: 413 })
  t.match(await ask(rig, 'chat', 'anthropic'), {
    status: 413,
    body: { error: { message: 'big', type: 'invalid_request_error', code: 'upstream_rejected' } }
  })
  rig.upstreams.gemini.json(said.gemini(404, 'gone'), { status: 404 })
  t.match(await ask(rig, 'responses', 'gemini'), {
    status: 404,
    body: { error: { message: 'gone', type: 'invalid_request_error', code: 'upstream_rejected' } }
  })
  rig.upstreams.openai.json(said.openai(400, 'no'), { status: 400 })
  t.match((await ask(rig, 'chat', 'openai')).body, { error: { param: 'messages' } }, "its own vendor's are")
})

t.test(
  'how long to wait is read from the body where it stands there, and is told there to those who read it there',
  async (t) => {
    const rig = await open(t)
    const limited = (retryDelay: string): Json => ({
      error: {
        code: 429,
        message: 'slow',
        status: 'RESOURCE_EXHAUSTED',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay }]
      }
    })
    rig.upstreams.gemini.json(limited('7.4s'), { status: 429 })
    t.match((await ask(rig, 'messages', 'gemini')).headers, { 'retry-after': '8', 'retry-after-ms': '7400' })
    rig.upstreams.gemini.json(limited('90000s'), { status: 429 })
    t.match((await ask(rig, 'chat', 'gemini')).headers, { 'retry-after': '300' }, 'never longer than is sensible')
    rig.upstreams.gemini.json(limited('soon'), { status: 429 })
    t.match((await ask(rig, 'chat', 'gemini')).headers, { 'retry-after': '1' })
    rig.upstreams.anthropic.json(said.anthropic(429, 'slow', 'rate_limit_error'), {
      status: 429,
      headers: { 'retry-after': '3' }
    })
    t.match((await ask(rig, 'gemini', 'anthropic')).body, {
      error: { code: 429, status: 'RESOURCE_EXHAUSTED', details: [{ '@type': /RetryInfo/, retryDelay: '3s' }] }
    })
  }
)

t.test('who has too much to do says so by the status that each client knows', async (t) => {
  const rig = await open(t)
  for (const [client, status] of Object.entries({ chat: 503, responses: 503, messages: 529, gemini: 503 })) {
    rig.upstreams.anthropic.json(said.anthropic(529, 'Overloaded', 'overloaded_error'), { status: 529 })
    const reply = await ask(rig, client, 'anthropic')
    t.equal(reply.status, status, client)
    t.equal((await rig.local.record(reply)).status, status, `${client}, in the record`)
  }
})

t.test('the number of an error event of Responses follows those of the events before it', async (t) => {
  const rig = await open(t)
  const delta = (content: string): Json => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })
  rig.upstreams.openai.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([delta('Hel'), delta('lo')]),
    reset()
  )
  const reply = await rig.local.ask(asking['responses']!('via-openai', true))
  const numbers = [...reply.text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number))
  t.match(reply.text, /event: error/)
  t.same(
    numbers,
    numbers.map((_, at) => at)
  )
  t.ok(numbers.length > 4)
})

t.test('a stream that begins with the refusal of the request is refused, not tried elsewhere', async (t) => {
  const rig = await open(t)
  const refusal = (type: string): string =>
    `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type, message: 'no' } })}\n\n`
  for (const [type, status] of Object.entries({
    invalid_request_error: 400,
    not_found_error: 404,
    request_too_large: 413,
    api_error: 502,
    overloaded_error: 503,
    rate_limit_error: 429
  })) {
    rig.upstreams.anthropic.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events([refusal(type)]),
      endOfBody()
    )
    t.equal((await ask(rig, 'chat', 'anthropic', true)).status, status, type)
  }
})
