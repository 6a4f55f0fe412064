// Text stages: what a model says, in order and by blocks, whichever way it comes, to be read, held back, changed or
// blocked.
import t from 'tap'
import { definePlugin, GatewayError } from '../../core/contract/contract.ts'
import type { Attempt, Hooks, Plugin, TextBlock, TextPart, TextStage } from '../../core/contract/contract.ts'
import { checkChatStream, readEvents } from '../kit/sse.ts'
import { bytes, endOfBody, events, head, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

let stage: () => TextStage
let hooks: Hooks = {}
const texts: Plugin = definePlugin({
  name: 'texts',
  summary: 'For a test.',
  options: {},
  setup: () => ({ onResponse: () => stage(), ...hooks })
})

/** A chain with the stage above `route`, or with other hooks. */
async function open(
  t: Parameters<typeof Workbench.open>[0],
  more: Hooks = {}
): Promise<{ bench: Workbench; upstream: Upstream }> {
  hooks = more
  const upstream = await Upstream.start(t)
  const chain = defaultChain.flatMap((entry): (object | string)[] => ('route' in entry ? ['texts', entry] : [entry]))
  return {
    upstream,
    bench: await Workbench.open(
      t,
      { channels: { a: channelTo(upstream, { endpoints: ['chat', 'embeddings', 'audio'] }) }, chain },
      { more: [texts] }
    )
  }
}

const chunk = (...choices: object[]): object => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'demo',
  choices
})
const says = (delta: object, more: object = {}, index = 0): object =>
  chunk({ index, delta, finish_reason: null, ...more })
const ends = (index = 0, reason = 'stop', delta: object = {}): object => chunk({ index, delta, finish_reason: reason })

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

/** What a client puts together, by choice and member. */
function said(answer: Answer): Record<string, string> {
  const all: Record<string, string> = {}
  const add = (name: string, value: unknown): void => {
    if (typeof value === 'string') all[name] = (all[name] ?? '') + value
    else if (Array.isArray(value))
      value.forEach((item: Record<string, unknown>, at) => add(`${name}.${(item['index'] as number) ?? at}`, item))
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value))
        if (!['role', 'type', 'id', 'name', 'finish_reason'].includes(key)) add(`${name}.${key}`, inner)
  }
  const bodies = answer.body.startsWith('{') ? [answer.body] : readEvents(answer.body).map(({ data }) => data)
  for (const body of bodies) {
    if (body === '[DONE]') continue
    for (const { index, message, delta } of JSON.parse(body).choices) add(String(index), message ?? delta)
  }
  return all
}

t.test(
  'text is masked across events, choices and members, with the same words in a stream and in a whole answer',
  async (t) => {
    const { bench, upstream } = await open(t)
    stage = masking
    const stream = [
      says({ role: 'assistant', content: '' }),
      says({ role: 'assistant', content: '' }, {}, 1),
      says({ reasoning_content: 'who is me' }),
      says({ reasoning_content: '@a.b' }),
      says({ content: 'Write to me' }, { logprobs: { content: [{ token: 'me' }] } }),
      says({ content: 'you@x' }, {}, 1),
      says({ content: '@a.b, or' }),
      says({ content: '.y now' }, {}, 1),
      says({ content: ' ask' }),
      ends(1),
      says({
        tool_calls: [{ index: 0, id: 't1', type: 'function', function: { name: 'send', arguments: '{"to": "me' } }]
      }),
      says({
        tool_calls: [
          { index: 1, id: 't2', type: 'function', function: { name: 'send', arguments: '{"to": "x@y" }' } },
          { index: 0, function: { arguments: '@a.b" }' } }
        ]
      }),
      ends(0, 'tool_calls'),
      { ...chunk(), usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }
    ]
    const expected = {
      '0.content': 'Write to [mail] or ask',
      '0.reasoning_content': 'who is [mail]',
      '1.content': '[mail] now',
      '0.tool_calls.0.function.arguments': '{"to": [mail] }',
      '0.tool_calls.1.function.arguments': '{"to": [mail] }'
    }
    upstream.sse(stream)
    const streamed = await bench.send({ body: { stream: true } })
    t.match(said(streamed), expected)
    checkChatStream(streamed.body, { n: 2 })
    const order = readEvents(streamed.body).map(({ data }) => data)
    const at = (text: string): number => order.findIndex((data) => data.includes(text))
    t.ok(
      at('"reasoning_content":"[mail]"') < at('"content":"Write'),
      'what is left of the reasoning comes before the answer'
    )
    t.ok(at('"content":" ask"') < at('tool_calls"'), 'what is left of the answer comes before the tools')
    t.ok(
      order.slice(at('"finish_reason":"tool_calls"') + 1).every((data) => !data.includes('"delta":{"')),
      'and everything before the event that ends the choice'
    )
    t.notMatch(streamed.body, '"token"', 'log probabilities of words that were changed are left out')
    t.equal(streamed.exchange.attempts[0]!.usage!.usage.output, 1, 'the usage is read as ever')

    const whole = {
      ...chatAnswer(),
      choices: [
        {
          index: 0,
          finish_reason: 'tool_calls',
          logprobs: { content: [{ token: 'me' }] },
          message: {
            role: 'assistant',
            content: 'Write to me@a.b, or ask',
            reasoning_content: 'who is me@a.b',
            refusal: null,
            tool_calls: [
              { id: 't1', type: 'function', function: { name: 'send', arguments: '{"to": "me@a.b" }' } },
              { id: 't2', type: 'function', function: { name: 'send', arguments: '{"to": "x@y" }' } }
            ]
          }
        },
        { index: 1, finish_reason: 'stop', message: { role: 'assistant', content: 'you@x.y now' } }
      ]
    }
    upstream.json(whole)
    const plain = await bench.send()
    t.match(said(plain), expected, 'whole, as asked')
    t.equal(JSON.parse(plain.body).choices[0].logprobs, null)
    t.same({ ...JSON.parse(plain.body), choices: [] }, { ...chatAnswer(), choices: [] }, 'the rest of it stays')
    upstream.sse(stream)
    t.match(said(await bench.send()), expected, 'put together from a stream')
    upstream.json(whole)
    t.match(said(await bench.send({ body: { stream: true } })), expected, 'made a stream of a whole answer')
  }
)

/** How an answer in sound ends, without a reason. */
const expires = says({ audio: { expires_at: 1 } })

t.test('parts come in order, with their block and kind, and each block ends once', async (t) => {
  const { bench, upstream } = await open(t)
  const seen: string[] = []
  stage = () => ({
    text: ({ block, kind, text }: TextPart) => void seen.push(`${block} ${kind}: ${text}`),
    flush: ({ block, kind }: TextBlock) => void seen.push(`${block} ${kind}.`)
  })
  const all = [
    says({ role: 'assistant', content: '' }),
    says({ reasoning: 'a' }),
    says({ content: 'b' }),
    says({ content: 'c' }),
    says({ reasoning: 'd', content: null }),
    says({ content: [{ type: 'text', text: 'e' }] }),
    ends(0, 'stop', { refusal: 'f' })
  ]
  upstream.sse(all)
  const answer = await bench.send({ body: { stream: true } })
  t.strictSame(seen, [
    '0.reasoning reasoning: a',
    '0.content text: b',
    '0.reasoning reasoning.',
    '0.content text: c',
    '0.reasoning.1 reasoning: d',
    '0.content text.',
    '0.content.0.text text: e',
    '0.reasoning.1 reasoning.',
    '0.refusal refusal: f',
    '0.content.0.text text.',
    '0.refusal refusal.'
  ])
  t.strictSame(
    readEvents(answer.body)
      .slice(0, -1)
      .map(({ data }) => JSON.parse(data)),
    all,
    'who changes nothing changes no byte'
  )
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([says({ role: 'assistant', content: 'x' }), expires, 'data: [DONE]\n\n']),
    endOfBody()
  )
  seen.length = 0
  await bench.send({ body: { stream: true } })
  t.strictSame(
    seen,
    ['0.content text: x', '0.content text.'],
    'a stream that ends without saying why ends its blocks, too'
  )
})

t.test(
  'what is held back until the end comes before the end, also where the upstream says no finish reason',
  async (t) => {
    const { bench, upstream } = await open(t)
    stage = () => {
      let all = ''
      return { text: ({ text }) => ((all += text), ''), flush: () => all.toUpperCase() }
    }
    for (const [finish, at] of [
      [ends(), -3],
      [expires, -2]
    ] as const) {
      upstream.script(
        head(200, { 'content-type': 'text/event-stream' }),
        events([...chatEvents().slice(0, 4), finish, 'data: [DONE]\n\n']),
        endOfBody()
      )
      const { body } = await bench.send({ body: { stream: true } })
      const read = readEvents(body).map(({ data }) => data)
      t.equal(read.at(-1), '[DONE]')
      t.match(read.at(at), /"content":"WORD0 WORD1 WORD2 "/)
    }
  }
)

t.test('a stage that needs whole blocks gets them at once, and a block that is too large is refused', async (t) => {
  const { bench, upstream } = await open(t)
  const seen: string[] = []
  stage = () => ({
    whole: true,
    text({ text }) {
      seen.push(text.slice(0, 40))
      if (text.includes('secret')) throw new GatewayError('content_blocked', 'The answer was blocked.')
    }
  })
  upstream.sse(chatEvents())
  const fine = await bench.send({ body: { stream: true } })
  t.strictSame(seen, ['word0 word1 word2 '])
  t.match(said(fine), { '0.content': 'word0 word1 word2 ' })
  upstream.sse([says({ role: 'assistant', content: 'a sec' }), says({ content: 'ret' }), ends()])
  const blocked = await bench.send({ body: { stream: true } })
  t.match(blocked.body, 'content_blocked')
  t.notMatch(blocked.body, 'sec')
  t.notMatch(blocked.body, '[DONE]')
  upstream.json({
    ...chatAnswer(),
    choices: [{ index: 0, message: { role: 'assistant', content: 'a secret' }, finish_reason: 'stop' }]
  })
  t.match(await bench.send(), { status: 403, body: /content_blocked/ })
  seen.length = 0
  upstream.sse([...Array.from({ length: 9 }, () => says({ content: 'x'.repeat(1024 * 1024) })), ends()])
  const large = await bench.send({ body: { stream: true } })
  t.match(large.body, 'answer_not_inspected')
  t.notMatch(large.body, 'xxx')
  t.strictSame(seen, [])
})

t.test('two text stages see each other, the one nearer to the client last', async (t) => {
  const upstream = await Upstream.start(t)
  const say = (name: string, from: string, to: string): Plugin =>
    definePlugin({
      name,
      summary: 'For a test.',
      options: {},
      setup: () => ({ onResponse: () => ({ text: ({ text }) => text.replaceAll(from, to), flush: () => `(${name})` }) })
    })
  const chain = defaultChain.flatMap((entry): (object | string)[] =>
    'route' in entry ? ['upper', 'lower', entry] : [entry]
  )
  const bench = await Workbench.open(
    t,
    { channels: { a: channelTo(upstream) }, chain },
    { more: [say('lower', 'word', 'Word'), say('upper', 'Word', 'WORD')] }
  )
  upstream.sse(chatEvents(2))
  t.match(said(await bench.send({ body: { stream: true } })), { '0.content': 'WORD0 WORD1 (lower)(upper)' })
})

t.test('the prompt can be read, and its texts replaced on the way to the upstream alone', async (t) => {
  let read: readonly TextPart[] = []
  const { bench, upstream } = await open(t, {
    onRequest(exchange) {
      read = exchange.prompt
      if (read.some(({ text }) => text.includes('forbidden')))
        throw new GatewayError('content_blocked', 'Your request was blocked.')
    },
    onAttempt: (_exchange, attempt: Attempt) =>
      attempt.editText(({ text }) => (text.includes('@') ? text.replace(/\S+@\S+/g, '[mail]') : undefined))
  })
  stage = () => ({ text: () => {} })
  const messages = [
    { role: 'system', content: 'Help.' },
    {
      role: 'user',
      name: 'x@y',
      content: [
        { type: 'text', text: 'I am me@a.b' },
        { type: 'image_url', image_url: { url: 'https://x@y/z' } }
      ]
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 't', type: 'function', function: { name: 'f', arguments: '{"a": "b@c" }' } }]
    },
    { role: 'tool', tool_call_id: 't', content: 'found d@e' }
  ]
  upstream.json(chatAnswer())
  const body = { seed: 1, messages, temperature: 0.5 }
  const answer = await bench.send({ body })
  t.equal(answer.status, 200)
  t.strictSame(
    read.map(({ role, kind, text }) => [role, kind, text]),
    [
      ['system', 'text', 'Help.'],
      ['user', 'text', 'I am me@a.b'],
      ['assistant', 'arguments', '{"a": "b@c" }'],
      ['tool', 'text', 'found d@e']
    ]
  )
  const sent = upstream.requests[0]!.body.toString()
  t.same(
    JSON.parse(sent).messages,
    JSON.parse(
      JSON.stringify(messages).replace('me@a.b', '[mail]').replace('\\"b@c\\"', '[mail]').replace('d@e', '[mail]')
    )
  )
  t.match(answer.exchange.body.bytes.toString(), 'me@a.b', "the client's own request stays as it came")
  t.match(sent, '"temperature":0.5')
  const blocked = await bench.send({ body: { messages: [{ role: 'user', content: 'forbidden' }] } })
  t.match([blocked.status, upstream.requests.length], [403, 1])
  upstream.json({
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [1] }],
    model: 'demo',
    usage: { prompt_tokens: 1, total_tokens: 1 }
  })
  await bench.send({ target: '/v1/embeddings', body: { input: ['a@b', 'c'], messages: undefined } })
  t.strictSame(upstream.requests[1]!.json().input, ['[mail]', 'c'], 'of other operations, too')
})

t.test('an answer in another protocol than chat is masked as well, passed on or translated', async (t) => {
  const upstream = await Upstream.start(t)
  const events = (list: { type: string; [member: string]: unknown }[]): string =>
    list.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  const usage = { input_tokens: 1, output_tokens: 2 }
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage
  }
  const told = (text: string): object => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text }
  })
  upstream.always(({ socket }) => {
    const body = events([
      { type: 'message_start', message },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      told('write to me') as never,
      told('@a.b') as never,
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
      { type: 'message_stop' }
    ])
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
    )
  })
  hooks = {}
  stage = masking
  const chain = (below: boolean): (object | string)[] =>
    defaultChain.flatMap((entry): (object | string)[] =>
      'protocol-translate' in entry === below && (below || 'route' in entry)
        ? below
          ? [entry, 'texts']
          : ['texts', entry]
        : [entry]
    )
  for (const below of [false, true]) {
    const bench = await Workbench.open(
      t,
      { channels: { a: channelTo(upstream, { protocol: 'anthropic' }) }, chain: chain(below) },
      { more: [texts] }
    )
    const native = await bench.send({ target: '/v1/messages', body: { stream: true, max_tokens: 5 } })
    t.equal(
      readEvents(native.body)
        .map(({ data }) => JSON.parse(data).delta?.text ?? '')
        .join(''),
      'write to [mail]',
      below ? 'below the translation' : 'above it'
    )
    t.match(native.body, /message_stop/)
    const messages = [{ role: 'user', content: 'hi' }]
    const translated = await bench.send({ body: { messages, stream: true } })
    t.match(said(translated), { '0.content': 'write to [mail]' })
    t.match(said(await bench.send({ body: { messages } })), { '0.content': 'write to [mail]' })
  }
})

t.test('an answer of sound passes a text stage that skips what is no text, and no other', async (t) => {
  const { bench, upstream } = await open(t)
  const speak = (): Promise<Answer> => {
    upstream.script(head(200, { 'content-type': 'audio/mpeg', 'content-length': '4' }), bytes('RIFF'))
    return bench.send({ target: '/v1/audio/speech', body: { model: 'demo', input: 'Hello', voice: 'alloy' } })
  }
  stage = () => ({ text: () => 'never' })
  const refused = await speak()
  t.match([refused.status, refused.body], [502, 'answer_not_inspected'])
  stage = () => ({ skip: true, text: () => 'never' })
  const passed = await speak()
  t.match([passed.status, passed.body], [200, 'RIFF'])
  upstream.json({ ...chatAnswer(), choices: [{ index: 0, message: { content: 'x'.repeat(9 << 20) } }] })
  const large = await bench.send()
  t.match([large.status, large.body], [502, 'answer_not_inspected'], 'what has text is not skipped for its size')
})
