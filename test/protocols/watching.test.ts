// What watches say of streams, event by event: what each event is, which of them are looked into, and whether the
// answer is complete.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { StreamWatch } from '../../core/protocols/protocol.ts'

type Json = Record<string, unknown>
type Watched = 'openai-chat' | 'anthropic' | 'bedrock'

/** The longest event that others are compared with, in bytes. */
const longest = 4096

function watchOf(name: Watched, request: Json = {}): StreamWatch {
  return protocols[name].watch(new Message('json', Buffer.from(JSON.stringify(request))).lens as never)
}

const eventOf = (data: Json | string, name: string): Message =>
  Message.event(typeof data === 'string' ? data : JSON.stringify(data), name)

/** What a watch says of an event: its kind, whether it is known to have no usage, and whether it was not seen. */
function kindOf(watch: StreamWatch, data: Json | string, name = ''): string {
  const event = eventOf(data, name)
  const kind = watch.see(event)
  return `${kind}${event.plain ? ' plain' : ''}${event.seen ? '' : ' unseen'}`
}

/** The state of a watch: whether what has begun is complete, and whether all is. */
const stateOf = ({ finished, complete }: StreamWatch): string =>
  complete ? 'complete' : finished ? 'finished' : 'incomplete'

const delta = (delta: Json, more: Json = {}): Json => ({ id: 'c', choices: [{ index: 0, delta, ...more }] })
const say = (content: string, more: Json = {}): Json => delta({ content }, more)
const stop = delta({}, { finish_reason: 'stop' })

t.test('chat: the first event with anything to show begins the answer', async (t) => {
  const nothing: Json[] = [
    {},
    { choices: [] },
    { choices: 'none' },
    { choices: [null] },
    { choices: [{ delta: null, text: '' }] },
    { choices: [{ text: 1 }] },
    delta({ role: 'assistant', content: '', refusal: null, tool_calls: [] }),
    delta({}, { finish_reason: '' }),
    delta({ audio: null })
  ]
  const watch = watchOf('openai-chat')
  for (const event of nothing) t.equal(kindOf(watch, event), 'opening', JSON.stringify(event))
  t.equal(stateOf(watch), 'incomplete')
  for (const event of [
    say('a'),
    delta({ tool_calls: [{}] }),
    delta({ reasoning: 'a' }),
    delta({ other: 0 }),
    { choices: [{ text: 'a' }] },
    { choices: [{ finish_reason: 'stop' }] },
    delta({ role: 'assistant', audio: { expires_at: 1 } })
  ]) {
    t.match(kindOf(watchOf('openai-chat'), event), /^content/, JSON.stringify(event))
    const begun = watchOf('openai-chat')
    kindOf(begun, event)
    t.match(kindOf(begun, nothing[0]!), /^content/, 'and all that comes after is part of it')
  }
})

t.test('chat: what is an error, an end and nothing of the protocol', async (t) => {
  for (const [data, name, kind] of [
    ['[DONE]', '', 'end unseen'],
    ['[DONE] \n', '', 'end unseen'],
    ['[1]', '', 'invalid'],
    ['x', '', 'invalid'],
    ['"text"', '', 'invalid'],
    [say('a'), 'error', 'error'],
    [{ error: { message: 'No.' } }, '', 'error'],
    [{ detail: 'No.' }, '', 'error'],
    [delta({}, { finish_reason: 'error' }), '', 'error']
  ] as const)
    t.equal(kindOf(watchOf('openai-chat'), data, name), kind, JSON.stringify(data))
})

t.test(
  'chat: an answer is finished with the reason of each choice, and complete with all that were asked for',
  async (t) => {
    const one = watchOf('openai-chat', {})
    const two = watchOf('openai-chat', { n: 2 })
    for (const watch of [one, two]) {
      kindOf(watch, say('a'))
      t.equal(stateOf(watch), 'incomplete')
      kindOf(watch, say('', { finish_reason: '' }))
      t.equal(stateOf(watch), 'incomplete', 'an empty reason is none')
      kindOf(watch, stop)
      kindOf(watch, say('', { finish_reason: null }))
    }
    t.equal(stateOf(one), 'complete')
    t.equal(stateOf(two), 'finished')
    kindOf(two, { choices: [{ index: 1, delta: { content: 'a' } }] })
    t.equal(stateOf(two), 'incomplete')
    kindOf(two, { choices: [{ index: 1, finish_reason: 'stop' }] })
    t.equal(stateOf(two), 'complete')
    const sound = watchOf('openai-chat')
    kindOf(sound, delta({ audio: { data: 'AAAA' } }))
    t.equal(stateOf(sound), 'incomplete')
    kindOf(sound, delta({ audio: { expires_at: 1 } }))
    t.equal(stateOf(sound), 'complete', 'sound ends without a reason')
  }
)

t.test('chat: no answer has more choices than can be asked for', async (t) => {
  const watch = watchOf('openai-chat', { n: 128 })
  const choice = (index: number): Json => ({ choices: [{ index, delta: { content: 'a' } }] })
  for (let index = 0; index < 128; index++) t.match(kindOf(watch, choice(index)), /^content/)
  t.equal(kindOf(watch, choice(128)), 'invalid')
  t.match(kindOf(watch, { choices: [{ index: 127, finish_reason: 'stop' }] }), /^content/)
})

t.test('chat: an event that is like the one before is not looked into', async (t) => {
  const after = (first: Json, next: Json | string, name = ''): string => {
    const watch = watchOf('openai-chat')
    t.match(kindOf(watch, first), /^content/)
    return kindOf(watch, next, name)
  }
  t.equal(after(say('a'), say('b')), 'content plain unseen')
  t.equal(after(say('a', { finish_reason: null }), say('b', { finish_reason: null })), 'content plain unseen')
  t.equal(after({ ...say('a'), usage: null }, { ...say('b'), usage: null }), 'content unseen', 'it may report usage')
  t.equal(after(say('a'), say('b'), 'error'), 'error')
  t.equal(after(say('a'), delta({ refusal: 'b' })), 'content', 'it has another member')
  const two = (text: string): Json => ({ choices: [0, 1].map((index) => ({ index, delta: { content: text } })) })
  t.equal(after(two('a'), two('b')), 'content', 'it has two choices')
  const ended = watchOf('openai-chat')
  kindOf(ended, say('a', { finish_reason: '' }))
  t.equal(kindOf(ended, say('b', { finish_reason: 'stop' })), 'content', 'it has a reason')
  t.equal(stateOf(ended), 'complete')
  const begun = watchOf('openai-chat')
  kindOf(begun, delta({ role: 'assistant' }))
  t.equal(kindOf(begun, delta({ role: 'assistant' })), 'opening', 'it says nothing')
  const long = longest - JSON.stringify(say('')).length
  t.equal(after(say('a'.repeat(long)), say('b')), 'content plain unseen')
  t.equal(after(say('a'.repeat(long + 1)), say('b')), 'content')
})

t.test('chat: a choice begins with its role, whether or not the upstream says it', async (t) => {
  const missing = (watch: StreamWatch, data: Json | string): unknown[] => {
    const event = eventOf(data, '')
    watch.see(event)
    return watch.missing(event).map((one) => JSON.parse(one) as unknown)
  }
  const watch = watchOf('openai-chat')
  const opening = (index: number): Json => ({
    id: 'c',
    choices: [{ index, delta: { role: 'assistant', content: '' }, finish_reason: null }]
  })
  t.strictSame(missing(watch, { choices: 'none' }), [])
  t.strictSame(missing(watch, 'none'), [])
  const usage = { total_tokens: 2 }
  t.strictSame(missing(watch, { id: 'c', choices: [{ delta: { content: 'a' } }], usage }), [opening(0)])
  t.strictSame(missing(watch, say('b')), [], 'once')
  t.strictSame(missing(watch, { id: 'c', choices: [{ index: 1, delta: { role: 'assistant' } }] }), [])
  t.strictSame(missing(watch, { id: 'c', choices: [{ index: 1, delta: { content: 'a' } }] }), [], 'it has begun')
  t.strictSame(
    missing(watch, { id: 'c', choices: [{ index: 2, text: 'a' }, { index: 1 }, { index: 3 }] }),
    [opening(2), opening(3)],
    'each that begins'
  )
  t.strictSame(watch.missing(eventOf({ choices: [{ index: 9 }] }, '')), [], 'none that was not seen')
})

const started = { type: 'message_start', message: { id: 'msg_1' } }
const block = (content_block: Json): Json => ({ type: 'content_block_start', index: 0, content_block })
const words = (text: string): Json => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })
const reason = (stop_reason: string | null): Json => ({ type: 'message_delta', delta: { stop_reason } })

/** A watch that has seen these events, each by the name of its type. */
function messages(...events: Json[]): StreamWatch {
  const watch = watchOf('anthropic')
  for (const event of events) watch.see(eventOf(event, String(event['type'])))
  return watch
}

t.test('messages: an answer begins with its first content, and an empty block is none', async (t) => {
  const ping = { type: 'ping' }
  for (const event of [
    block({ type: 'text', text: '' }),
    block({ type: 'thinking', thinking: '' }),
    block({}),
    { type: 'content_block_start' },
    { type: 'content_block_stop', index: 0 },
    reason(null),
    { type: 'message_delta' },
    { type: 'new', content_block: { type: 'tool_use' } },
    ping
  ])
    t.equal(kindOf(messages(started), event), 'opening', JSON.stringify(event))
  for (const event of [
    block({ type: 'text', text: 'a' }),
    block({ type: 'thinking', thinking: 'a' }),
    block({ type: 'tool_use', id: 'a', name: 'f', input: {} }),
    reason('end_turn'),
    words('')
  ]) {
    t.match(kindOf(messages(started), event), /^content/, JSON.stringify(event))
    t.equal(kindOf(messages(started, event), ping), 'content', 'and all that comes after is part of it')
  }
  t.equal(kindOf(messages(), ping), 'opening')
  t.equal(kindOf(messages(), started), 'opening')
  t.equal(kindOf(messages(started), started), 'invalid')
  t.equal(kindOf(messages(), words('a')), 'invalid')
  t.equal(kindOf(messages(), { type: 'message_stop' }), 'invalid')
  t.equal(kindOf(messages(started), '[1]'), 'invalid')
})

t.test('messages: what is an error, whatever its type', async (t) => {
  for (const event of [{ type: 'error' }, { type: 'message_delta', error: {} }, { detail: 'No.' }, { error: 'No.' }])
    t.equal(kindOf(messages(started), event), 'error', JSON.stringify(event))
  t.equal(kindOf(messages(started), words('a'), 'error'), 'error')
  t.equal(kindOf(messages(started, words('a')), words('b'), 'error'), 'error')
  t.equal(kindOf(messages(started), { type: 'new', message: 'Yes.' }), 'opening', 'what has a type is not read for one')
  t.equal(kindOf(messages(started), { error: null, object: 'new' }), 'opening')
})

t.test('messages: an answer is complete with its end marker alone', async (t) => {
  const end = { type: 'message_stop' }
  t.equal(stateOf(messages(started, words('a'), reason('end_turn'))), 'incomplete')
  t.equal(stateOf(messages(started, end)), 'incomplete', 'without anything to show')
  t.equal(stateOf(messages(started, words('a'), end)), 'complete')
  t.equal(kindOf(messages(started), end), 'end')
  t.strictSame(messages(started).missing(eventOf(words('a'), '')), [])
})

t.test('messages: a delta that is like the one before is not looked into', async (t) => {
  const name = 'content_block_delta'
  t.equal(kindOf(messages(started), words('a'), name), 'content plain')
  t.equal(kindOf(messages(started, words('a')), words('b'), name), 'content plain unseen')
  t.equal(kindOf(messages(started, words('a')), { type: 'message_stop' }, name), 'end')
  const text = block({ type: 'text', text: 'a' })
  t.equal(kindOf(messages(started, text), text, 'content_block_start'), 'content')
  t.equal(kindOf(messages(started, text), text, name), 'content', 'it is no delta')
  const long = longest - JSON.stringify(words('')).length
  t.equal(kindOf(messages(started, words('a'.repeat(long))), words('b'), name), 'content plain unseen')
  t.equal(kindOf(messages(started, words('a'.repeat(long + 1))), words('b'), name), 'content plain')
  t.equal(kindOf(messages(started), words('a'.repeat(long + 1)), name), 'content', 'it is searched for usage')
})

/** Events of Converse by their names. */
const converse = {
  messageStart: { role: 'assistant' },
  contentBlockStart: { start: { toolUse: { toolUseId: 'a', name: 'f' } }, contentBlockIndex: 0 },
  contentBlockDelta: { delta: { text: 'a' }, contentBlockIndex: 0 },
  contentBlockStop: { contentBlockIndex: 0 },
  messageStop: { stopReason: 'end_turn' },
  metadata: { usage: { inputTokens: 1 } }
} as const
type ConverseEvent = keyof typeof converse

/** A watch that has seen these events. */
function conversed(...names: ConverseEvent[]): StreamWatch {
  const watch = watchOf('bedrock')
  for (const name of names) watch.see(eventOf(converse[name], name))
  return watch
}

t.test('converse: what each event is, by its name or by its members', async (t) => {
  for (const [before, name, kind] of [
    [[], 'messageStart', 'opening'],
    [[], 'contentBlockDelta', 'invalid'],
    [[], 'metadata', 'invalid'],
    [['messageStart'], 'messageStart', 'invalid'],
    [['messageStart'], 'contentBlockStart', 'content'],
    [['messageStart'], 'contentBlockDelta', 'content plain'],
    [['messageStart'], 'contentBlockStop', 'opening'],
    [['messageStart', 'contentBlockStart'], 'contentBlockStop', 'content'],
    [['messageStart'], 'messageStop', 'content'],
    [['messageStart', 'contentBlockDelta'], 'metadata', 'invalid'],
    [['messageStart', 'messageStop'], 'metadata', 'end']
  ] as [ConverseEvent[], ConverseEvent, string][]) {
    t.equal(kindOf(conversed(...before), converse[name], name), kind, `${before.join()} ${name}`)
    t.equal(kindOf(conversed(...before), converse[name]), kind, `${before.join()} ${name} by its members`)
  }
  t.equal(kindOf(conversed(), '[1]'), 'invalid')
  t.equal(kindOf(conversed(), { message: 'No.' }, 'error'), 'error')
  t.equal(kindOf(conversed('messageStart'), { __type: 'ThrottlingException' }), 'error')
  t.equal(kindOf(conversed('messageStart'), {}, 'new'), 'opening')
  t.equal(kindOf(conversed('messageStart', 'messageStop'), {}, 'new'), 'content')
})

t.test('converse: an answer is complete with its usage, which comes after its reason', async (t) => {
  const begun: ConverseEvent[] = ['messageStart', 'contentBlockDelta', 'contentBlockStop']
  t.equal(stateOf(conversed(...begun)), 'incomplete')
  t.equal(stateOf(conversed(...begun, 'metadata')), 'incomplete')
  t.equal(stateOf(conversed(...begun, 'messageStop')), 'incomplete')
  t.equal(stateOf(conversed(...begun, 'messageStop', 'metadata')), 'complete')
  t.strictSame(conversed(...begun).missing(eventOf({}, '')), [])
})

t.test('converse: a delta that is like the one before is not looked into', async (t) => {
  const said = (text: string): Json => ({ delta: { text }, contentBlockIndex: 0 })
  const after = (first: string, name: string): string => {
    const watch = conversed('messageStart')
    t.equal(kindOf(watch, said(first), 'contentBlockDelta'), 'content plain')
    return kindOf(watch, said('b'), name)
  }
  t.equal(after('a', 'contentBlockDelta'), 'content plain unseen')
  t.equal(after('a', 'error'), 'error')
  const long = longest - JSON.stringify(said('')).length
  t.equal(after('a'.repeat(long), 'contentBlockDelta'), 'content plain unseen')
  t.equal(after('a'.repeat(long + 1), 'contentBlockDelta'), 'content plain')
})
