// Responses through the engine: bytes that pass untouched, which channel is asked how, and stages that see the text.
import t from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Attempt, Plugin, TextBlock, TextPart, TextStage } from '../../core/contract/contract.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { readEvents } from '../kit/sse.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, defaultChain, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

const target = '/v1/responses'
const usage = {
  input_tokens: 9,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 3,
  output_tokens_details: { reasoning_tokens: 1 },
  total_tokens: 12
}
const message = (text: string, more: object = {}): object => ({
  id: 'msg_1',
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], logprobs: [], ...more }]
})
const response = (output: object[], more: object = {}): object => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'demo',
  output,
  usage,
  error: null,
  ...more
})
const begun = response([], { status: 'in_progress', usage: null })

/** The events of a stream, numbered; each is a type and what else it has. */
function events(...told: [type: string, more: object][]): object[] {
  return told.map(([type, more], sequence_number) => ({ type: `response.${type}`, sequence_number, ...more }))
}
const framed = (list: object[]): string =>
  list.map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`).join('')

/** A text in so many pieces, told in all the ways that the protocol has. */
function telling(...pieces: string[]): object[] {
  const text = pieces.join('')
  const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  return events(
    ['created', { response: begun }],
    ['in_progress', { response: begun }],
    ['output_item.added', { output_index: 0, item: { ...message(''), status: 'in_progress', content: [] } }],
    ['content_part.added', { ...at, part: { type: 'output_text', text: '', annotations: [], logprobs: [] } }],
    ...pieces.map((delta): [string, object] => ['output_text.delta', { ...at, delta, logprobs: [{ token: delta }] }]),
    ['output_text.done', { ...at, text, logprobs: [] }],
    ['content_part.done', { ...at, part: { type: 'output_text', text, annotations: [], logprobs: [{ token: text }] } }],
    ['output_item.done', { output_index: 0, item: message(text) }],
    ['completed', { response: response([message(text)]) }]
  )
}

function stream(upstream: Upstream, list: object[]): void {
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), chunk(framed(list)), endOfBody())
}

const native = (upstream: Upstream, more: object = {}): Record<string, unknown> =>
  channelTo(upstream, { endpoints: ['chat', 'responses'], ...more })

t.test('bytes pass as they came, both ways, and the usage is read', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: native(upstream) } })
  const body = `{"model":"demo", "input":"Hi",  "metadata":{"a":1e2},"unknown":[1.0],"store":false}`
  const answer = JSON.stringify(response([message('Hello')])).replace(',"usage"', ' , "odd" : 1.50,"usage"')
  upstream.script(head(200, { 'content-type': 'application/json' }), chunk(answer), endOfBody())
  const whole = await bench.send({ target, body })
  t.equal(whole.body, answer)
  t.equal(upstream.requests[0]!.target, '/v1/responses')
  t.equal(upstream.requests[0]!.body.toString(), body)
  t.match(whole.exchange.attempts[0]!.usage, {
    source: 'upstream',
    usage: { input: 5, cached_input: 4, output: 3, reasoning: 1 }
  })

  const odd = [...telling('Hel', 'lo')]
  odd.splice(
    3,
    0,
    { type: 'codex.rate_limits', limit_reached: true },
    { type: 'response.future_thing.delta', sequence_number: 3, delta: 7 }
  )
  stream(upstream, odd)
  const streamed = await bench.send({ target, body: body.replace('"store"', '"stream":true,"store"') })
  t.equal(streamed.body, framed(odd), 'events that nobody knows, too')
  t.match(streamed, { complete: true, outcome: { kind: 'completed' } })
  t.match(streamed.exchange.attempts[0]!.usage, { source: 'upstream', usage: { input: 5, output: 3 } })
})

t.test('a stream ends as its last event says, and with an error when there is none', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: native(upstream) } })
  const body = { input: 'Hi', stream: true, store: false }
  for (const [type, status] of [
    ['incomplete', 'incomplete'],
    ['failed', 'failed']
  ] as const) {
    const list = telling('a', 'b').with(-1, {
      type: `response.${type}`,
      sequence_number: 9,
      response: response([message('ab')], { status })
    })
    stream(upstream, list)
    const ended = await bench.send({ target, body })
    t.equal(ended.body, framed(list))
    t.match(
      ended.exchange.attempts[0]!.usage,
      { source: 'upstream', usage: { input: 5, output: 3 } },
      `${type}: what the upstream counted`
    )
  }
  stream(upstream, telling('a', 'b').slice(0, -1))
  const cut = await bench.send({ target, body })
  t.match(JSON.parse(readEvents(cut.body).at(-1)!.data), {
    type: 'error',
    code: 'upstream_stream_interrupted',
    error: { code: 'upstream_stream_interrupted' }
  })
  t.equal(readEvents(cut.body).at(-1)!.event, 'error')
  t.match(cut.outcome, { kind: 'failed' })
})

t.test('what fails before it has said anything is tried elsewhere', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const bench = await Workbench.open(t, { channels: { a: native(first), b: native(second, { priority: 1 }) } })
  stream(
    first,
    events(
      ['created', { response: begun }],
      ['failed', { response: response([], { status: 'failed', error: { code: 'server_error', message: 'Sorry.' } }) }]
    )
  )
  stream(second, telling('a'))
  const answer = await bench.send({ target, body: { input: 'Hi', stream: true, store: false } })
  t.equal(answer.body, framed(telling('a')))
  t.equal(answer.exchange.attempts.length, 2)
})

t.test('the client sees the name that it asked for, wherever the upstream says its own', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: native(upstream, { models: { demo: 'demo-2026' } }) } })
  const named = (list: object[]): object[] =>
    JSON.parse(JSON.stringify(list).replaceAll('"model":"demo"', '"model":"demo-2026"'))
  upstream.json(named([response([message('Hi')])])[0]!)
  t.equal(
    (await bench.send({ target, body: { input: 'Hi', store: false } })).body,
    JSON.stringify(response([message('Hi')]))
  )
  t.equal(upstream.requests[0]!.json().model, 'demo-2026')
  stream(upstream, named(telling('a')))
  t.equal((await bench.send({ target, body: { input: 'Hi', stream: true, store: false } })).body, framed(telling('a')))
})

t.test('a channel is asked in what its endpoints say, and what may be kept goes to one that keeps it', async (t) => {
  const [chat, both] = [await Upstream.start(t), await Upstream.start(t)]
  const channels = { chat: channelTo(chat), both: native(both, { priority: 1 }) }
  const bench = await Workbench.open(t, { channels })
  const path = async (upstream: Upstream, answer: object, ask: object, ways = '/v1/responses'): Promise<string> => {
    upstream.json(answer)
    const { status, body } = await bench.send({ target: ways, body: ask })
    t.equal(status, 200, body)
    return upstream.requests.at(-1)!.target
  }
  const made = response([message('Hi')])
  t.equal(await path(both, made, { input: 'Hi', store: null }), '/v1/responses', 'stored where nothing is said')
  t.equal(await path(both, made, { input: 'Hi', store: false, background: true }), '/v1/responses')
  t.equal(
    await path(chat, chatAnswer(), { input: 'Hi', store: false }),
    '/v1/chat/completions',
    "else the order is the operator's"
  )
  t.equal(await path(chat, chatAnswer(), {}, '/v1/chat/completions'), '/v1/chat/completions')
  t.equal(chat.requests.length, 2)
  await bench.reload({ channels: { both: native(both, { endpoints: ['responses'] }) } })
  t.equal(
    await path(both, made, { messages: [{ role: 'user', content: 'Hi' }] }, '/v1/chat/completions'),
    '/v1/responses',
    'a chat client is translated'
  )
  t.match(both.requests.at(-1)!.json(), { store: false, input: [{ role: 'user' }] })
  for (const [field, value] of [
    ['previous_response_id', 7],
    ['background', 'yes'],
    ['store', 1]
  ] as const) {
    const refused = await bench.send({ target, body: { input: 'Hi', [field]: value } })
    t.match([refused.status, JSON.parse(refused.body).error.param], [400, field])
  }
})

/** Two channels with stages that read or change the text of what comes from a Responses upstream. */
async function withStage(
  t: Parameters<typeof Workbench.open>[0],
  stage: () => TextStage,
  onAttempt?: (exchange: unknown, attempt: Attempt) => void
): Promise<{ bench: Workbench; upstream: Upstream }> {
  const texts: Plugin = definePlugin({
    name: 'texts',
    summary: 'For a test.',
    options: {},
    setup: () => ({ onResponse: () => stage(), ...(onAttempt && { onAttempt }) })
  })
  const upstream = await Upstream.start(t)
  const chain = defaultChain.flatMap((entry): (object | string)[] => ('route' in entry ? ['texts', entry] : [entry]))
  return { upstream, bench: await Workbench.open(t, { channels: { a: native(upstream) }, chain }, { more: [texts] }) }
}

/** Masks e-mail addresses, which may be cut anywhere: what may still become one is held back. */
function masking(): TextStage {
  const held = new Map<string, string>()
  const masked = (text: string): string => text.replace(/\S+@\S+/g, '[mail]')
  return {
    text({ block, text }) {
      const all = (held.get(block) ?? '') + text
      const cut = all.search(/\S*$/)
      held.set(block, all.slice(cut))
      return masked(all.slice(0, cut))
    },
    flush: ({ block }) => masked(held.get(block) ?? '')
  }
}

/** Every text that an answer says, however often. */
function everyText({ body }: Answer): string {
  return [...body.matchAll(/"(?:delta|text|arguments|refusal)":("(?:[^"\\]|\\.)*")/g)]
    .map(([, text]) => JSON.parse(text!) as string)
    .filter((text) => text !== '')
    .join('|')
}

t.test('a text stage changes a text everywhere that it is told, and the events stay numbered', async (t) => {
  const { bench, upstream } = await withStage(t, masking)
  stream(upstream, telling('Write to me', '@a.b, or', ' you@c'))
  const streamed = await bench.send({ target, body: { input: 'Hi', stream: true, store: false } })
  const all = readEvents(streamed.body).map(({ event, data }) => ({ event, ...JSON.parse(data) }))
  t.equal(
    all
      .filter(({ type }) => type === 'response.output_text.delta')
      .map(({ delta }) => delta)
      .join(''),
    'Write to [mail] or [mail]'
  )
  const final = 'Write to [mail] or [mail]'
  t.match(
    all.find(({ type }) => type === 'response.output_text.done'),
    { text: final }
  )
  t.match(
    all.find(({ type }) => type === 'response.content_part.done'),
    { part: { text: final, logprobs: [] } }
  )
  t.match(
    all.find(({ type }) => type === 'response.output_item.done'),
    { item: { content: [{ text: final }] } }
  )
  t.match(all.at(-1), {
    type: 'response.completed',
    response: { output: [{ content: [{ text: final }] }], usage: { output_tokens: 3 } }
  })
  t.strictSame(
    all.map(({ sequence_number }) => sequence_number),
    all.map((_, at) => at)
  )
  t.ok(
    all.every(({ event, type }) => event === type),
    'each has its name'
  )
  t.notMatch(streamed.body, '"token"', 'log probabilities hold the very words')
  upstream.json(
    response([
      message('Write to me@a.b, or you@c'),
      {
        id: 'fc_1',
        type: 'function_call',
        call_id: 'c',
        name: 'send',
        arguments: '{"to": "me@a.b" }',
        status: 'completed'
      }
    ])
  )
  t.equal(
    everyText(await bench.send({ target, body: { input: 'Hi', store: false } })),
    `${final}|{"to": [mail] }`,
    'as a whole, too'
  )
})

t.test('who changes nothing changes no byte, and sees each text once, however the upstream tells of it', async (t) => {
  const seen: string[] = []
  const { bench, upstream } = await withStage(t, () => ({
    text: ({ block, kind, text }: TextPart) => void seen.push(`${block} ${kind}: ${text}`),
    flush: ({ block, kind }: TextBlock) => void seen.push(`${block} ${kind}.`)
  }))
  const reasoning = { id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] }
  const call = { id: 'fc_1', type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', status: 'completed' }
  const list = events(
    ['created', { response: begun }],
    ['output_item.added', { output_index: 0, item: { ...reasoning, summary: [] } }],
    ['reasoning_summary_text.delta', { item_id: 'rs_1', output_index: 0, summary_index: 0, delta: 'Hm.' }],
    ['reasoning_summary_text.done', { item_id: 'rs_1', output_index: 0, summary_index: 0, text: 'Hm.' }],
    ['output_item.done', { output_index: 0, item: reasoning }],
    // A call that comes as a whole, and a message of which only the end tells.
    ['output_item.done', { output_index: 1, item: call }],
    ['completed', { response: response([reasoning, call, message('Bye')]) }]
  )
  stream(upstream, list)
  const answer = await bench.send({ target, body: { input: 'Hi', stream: true, store: false } })
  t.equal(answer.body, framed(list))
  t.strictSame(seen, [
    '0.summary.0 reasoning: Hm.',
    '0.summary.0 reasoning.',
    '1.arguments arguments: {}',
    '1.arguments arguments.',
    '2.content.0 text: Bye',
    '2.content.0 text.'
  ])
})

t.test('the texts of a prompt are read and replaced wherever the input has them', async (t) => {
  const roles: unknown[] = []
  const { bench, upstream } = await withStage(
    t,
    () => ({ text: () => {} }),
    (_exchange, attempt) =>
      attempt.editText(({ role, kind, text }) => {
        roles.push([role, kind])
        return text.replace(/\S+@\S+/g, '[mail]')
      })
  )
  const input = [
    { role: 'user', content: 'I am me@a.b' },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'x@y' },
        { type: 'input_image', image_url: 'https://x@y/z' }
      ]
    },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"a": "b@c" }' },
    { type: 'function_call_output', call_id: 'c', output: 'found d@e' }
  ]
  upstream.json(response([message('Hi')]))
  upstream.json(response([message('Hi')]))
  await bench.send({ target, body: { instructions: 'Not a@b', input, store: false } })
  const sent = upstream.requests[0]!.json()
  t.equal(sent.instructions, 'Not [mail]')
  t.same(
    sent.input,
    JSON.parse(
      JSON.stringify(input)
        .replace('me@a.b', '[mail]')
        .replace('"x@y"', '"[mail]"')
        .replace('\\"b@c\\"', '[mail]')
        .replace('d@e', '[mail]')
    )
  )
  t.strictSame(roles, [
    ['system', 'text'],
    ['user', 'text'],
    ['user', 'text'],
    ['assistant', 'arguments'],
    ['tool', 'text']
  ])
  await bench.send({ target, body: { input: 'I am me@a.b', store: false } })
  t.equal(upstream.requests[1]!.json().input, 'I am [mail]')
})

t.test('what the gateway is to tell again it asks for, whatever else is to be included', async (t) => {
  const upstream = await Upstream.start(t)
  const channels = { a: { endpoints: ['responses'] } }
  const models = { [testModel]: { state: 'gateway', price: { input: 1, output: 1 } } }
  const local = await gateway(t, { channels, models, state: { key: 'x'.repeat(64) } }, { upstreams: { a: upstream } })
  const thoughts = 'reasoning.encrypted_content'
  const other = 'message.output_text.logprobs'
  for (const [include, wanted] of [
    [undefined, [thoughts]],
    [null, [thoughts]],
    [[], [thoughts]],
    [[other], [other, thoughts]],
    [
      [thoughts, other],
      [thoughts, other]
    ]
  ]) {
    upstream.json(response([message('Yes')]))
    const body = { model: testModel, input: 'Hi', ...(include !== undefined && { include }) }
    const headers = { authorization: `Bearer ${testKey}` }
    t.equal((await local.ask({ method: 'POST', path: target, headers, body })).status, 200)
    t.same(upstream.requests.at(-1)!.json().include, wanted, JSON.stringify(include))
  }
})
