// What decoders tell of streams that are made of blocks, event by event: the whole of it and in its order.
import t from 'tap'
import { cut, foreign, told } from '../kit/decoded.ts'

type Json = Record<string, unknown>

const args = '{"a":1}'
const started = { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 1, output_tokens: 1 } } }
const block = (index: number, content: Json): Json => ({ type: 'content_block_start', index, content_block: content })
const delta = (index: number, type: string, more: Json): Json => ({
  type: 'content_block_delta',
  index,
  delta: { type: `${type}_delta`, ...more }
})
const messageEnd = (reason = 'end_turn', more: Json = {}): Json[] => [
  { type: 'message_delta', delta: { stop_reason: reason, ...more }, usage: { output_tokens: 2 } },
  { type: 'message_stop' }
]

t.test('messages: blocks are told with what they begin and end with', async (t) => {
  const read = (...events: Json[]): string[] => told('anthropic', [started, ...events])
  const explained = messageEnd('refusal', { stop_details: { type: 'refusal', explanation: 'No.' } })
  t.same(read(...explained), [
    'start msg_1',
    'open 0/0 refusal',
    '0: No.',
    'close 0',
    'usage',
    'finish 0 content_filter',
    'end'
  ])
  const citation = delta(0, 'citations', { citation: { url: 'https://a.example' } })
  const text = [block(0, { type: 'text', text: 'ab' }), citation, delta(0, 'text', { text: 'c' })]
  t.same(read(...text, ...messageEnd()).slice(1, 6), [
    'open 0/0 text',
    '0: ab',
    '0: c',
    'cite 0 https://a.example 0-3',
    'close 0'
  ])
  const thoughts = [
    block(0, { type: 'thinking', thinking: 'a', signature: 's' }),
    delta(0, 'thinking', { thinking: 'b' })
  ]
  const signed = delta(0, 'signature', { signature: 't' })
  t.same(read(...thoughts, ...messageEnd())[4], 'close 0 (signature s)')
  t.same(read(...thoughts, signed, ...messageEnd())[4], 'close 0 (signature t)', 'the later of two counts')
  const hidden = block(0, { type: 'redacted_thinking', data: 'd' })
  t.same(read(hidden, ...messageEnd()).slice(1, 3), ['open 0/0 reasoning', 'close 0 (redacted d)'])
  const tool = (input: Json): Json => block(0, { type: 'tool_use', id: 'a', name: 'f', input })
  const called = ['open 0/0 tool_call a f', `0: ${args}`, `close 0 ${args}`, 'usage', 'finish 0 tool_calls', 'end']
  t.same(read(tool({ a: 1 }), ...messageEnd()).slice(1), called)
  t.same(read(tool({}), delta(0, 'input_json', { partial_json: args }), ...messageEnd()).slice(1), called)
  t.same(read(tool({ b: 2 }), delta(0, 'input_json', { partial_json: args }), ...messageEnd()).slice(1), called)
  t.same(read(block(0, { type: 'new' }), delta(0, 'text', { text: 'a' }), ...messageEnd()).slice(1), [
    'usage',
    'finish 0 stop',
    'end'
  ])
})

t.test('messages: what is no answer, and where one ends', async (t) => {
  const text = block(0, { type: 'text', text: '' })
  const read = (...events: (Json | string)[]): string | undefined => told('anthropic', events).at(-1)
  t.equal(read({ type: 'ping' }, started, { type: 'ping' }, { type: 'new' }, ...messageEnd(), 'none'), 'end')
  t.equal(read(text), foreign)
  t.equal(read(started, 'none'), foreign)
  t.match(read(started, started), /began its answer twice/)
  t.match(read(started, text, text), /began a block twice/)
  t.match(read(started, delta(1, 'text', { text: 'a' })), /had not begun/)
  t.match(
    read(started, text, { type: 'content_block_stop', index: 0 }, delta(0, 'text', { text: 'a' })),
    /had not begun/
  )
  t.equal(read(started, messageEnd()[0]!), cut)
  for (const error of [{ error: { message: 'No.' } }, { type: 'error', error: { message: 'No.' } }])
    t.equal(read(error), 'refused: No.')
  t.equal(read({ type: 'error' }), 'refused: The upstream reported an error.')
})

const converse = (...events: Json[]): Json[] => [
  { role: 'assistant' },
  ...events,
  { stopReason: 'end_turn' },
  { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } }
]
const at = (more: Json, contentBlockIndex = 0): Json => ({ contentBlockIndex, ...more })

t.test('converse: blocks are told with what they begin and end with', async (t) => {
  const read = (...events: Json[]): string[] => told('bedrock', converse(...events)).slice(1, -3)
  const said = (text: string): Json => at({ delta: { text } })
  t.same(read(said('a'), said('b'), at({})), ['open 0/0 text', '0: a', '0: b', 'close 0'])
  t.same(read(said('a'), at({}), said('b')), ['open 0/0 text', '0: a', 'close 0', 'open 0/1 text', '1: b', 'close 1'])
  t.same(read(at({})), [], 'the end of a block that never began')
  const think = (more: Json): Json => at({ delta: { reasoningContent: more } })
  t.same(read(think({ text: 'a' }), think({ signature: 's' }), think({ signature: 't' }), think({ text: 'b' })), [
    'open 0/0 reasoning',
    '0: a',
    '0: b',
    'close 0 (signature t)'
  ])
  t.same(read(think({ redactedContent: 'YQ==' }), think({ redactedContent: 'Yg==' })), [
    'open 0/0 reasoning',
    'close 0 (redacted YWI=)'
  ])
  const tool = at({ start: { toolUse: { toolUseId: 'a', name: 'f' } } })
  const input = at({ delta: { toolUse: { input: args } } })
  const called = ['open 0/0 tool_call a f', `0: ${args}`, `close 0 ${args}`]
  t.same(read(tool, input), called)
  const citation = at({ delta: { citation: { location: { web: { url: 'https://a.example' } } } } })
  t.equal(read(said('ab'), citation, said('c'))[3], 'cite 0 https://a.example 0-3')
  const picture = [{ start: { image: { format: 'jpeg' } } }, { delta: { image: { source: { bytes: 'AAAA' } } } }]
  t.match(read(...picture.map((piece) => at(piece)))[0], /^open 0.0 media .*jpeg/)
  t.equal(told('bedrock', converse(tool, input)).at(-2), 'finish 0 tool_calls')
  t.same(told('bedrock', converse(said('a'))).slice(-3), ['usage', 'finish 0 stop', 'end'])
})

t.test('converse: what is no answer, and where one ends', async (t) => {
  const said = at({ delta: { text: 'a' } })
  const read = (...events: (Json | string)[]): string | undefined => told('bedrock', events).at(-1)
  const whole = converse(said)
  t.equal(read(...whole, 'none'), 'end', 'nothing after the end is read')
  t.equal(read(...whole.slice(0, -1)), cut, 'its usage is part of it')
  t.equal(read(...whole.slice(0, -2), ...whole.slice(-1)), cut, 'and so is its reason')
  t.equal(read(said), foreign)
  t.equal(read('none'), foreign)
  t.match(read({ role: 'assistant' }, { role: 'assistant' }), /began its answer twice/)
  const tool = at({ start: { toolUse: { toolUseId: 'a', name: 'f' } } })
  t.match(read(...converse(tool, tool)), /began a block twice/)
  t.match(read(...converse(at({ delta: { toolUse: { input: '{}' } } }))), /had not begun/)
  t.match(read(...converse(said, at({ delta: { reasoningContent: { text: 'b' } } }))), /two kinds/)
})
