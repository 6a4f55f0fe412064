// How much decoders of chats, Messages and Converse take: so many calls and blocks, and so much that has to be kept.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { UpstreamCodecName } from '../../core/protocols/translation/codecs.ts'
import { told } from '../kit/decoded.ts'

type Json = Record<string, unknown>

/** The most characters that are kept of a stream. */
const most = 16 * 1024 * 1024
const many = /too many parts/
const much = /more in calls and thoughts/

const chunk = (delta: Json, more: Json = {}): Json => ({ id: 'c', choices: [{ index: 0, delta, ...more }] })
const stop = chunk({}, { finish_reason: 'stop' })
const last = (name: UpstreamCodecName, events: Json[]): string | undefined => told(name, events).at(-1)

t.test('a choice of a chat has so many calls at most', async (t) => {
  const calls = (count: number): Json[] =>
    Array.from({ length: count }, (_, index) =>
      chunk({ tool_calls: [{ index, id: 'a', function: { name: 'f', arguments: '{}' } }] })
    )
  t.equal(last('openai-chat', [...calls(128), stop]), 'end')
  t.match(last('openai-chat', [...calls(129), stop]), /called too many tools/)
})

t.test('a call of a chat has so much input at most before its name', async (t) => {
  const early = (length: number): Json[] => [
    chunk({ tool_calls: [{ index: 0, function: { arguments: 'x'.repeat(length) } }] }),
    chunk({ tool_calls: [{ index: 0, function: { name: 'f' } }] }),
    stop
  ]
  t.equal(last('openai-chat', early(64 * 1024)), 'end')
  t.match(last('openai-chat', early(64 * 1024 + 1)), /without a name/)
})

t.test('a chat is read without parsing what is like the events before, however often that changes', async (t) => {
  const say = (content: string, at: number): Message => Message.event(JSON.stringify({ ...chunk({ content }), at }))
  const decoder = codecs['openai-chat'].decodeStream('id')
  let text = ''
  const parsed = (event: Message): boolean => {
    decoder.push(event, (event) => void (event.type === 'delta' && (text += event.text)))
    return event.parsed
  }
  for (let at = 0; at < 16; at++) {
    t.ok(parsed(say('a', at)))
    t.notOk(parsed(say('b', at)), String(at))
  }
  t.ok(parsed(say('a', 16)))
  t.ok(parsed(say('b', 16)), 'and no more than so often')
  t.notOk(parsed(say('b', 15)))
  t.equal(text, `${'ab'.repeat(17)}b`)
  const repeated = [say('a', 0), say('b', 1), say('c', 0)]
  const other = codecs['openai-chat'].decodeStream('id')
  for (const event of repeated) other.push(event, () => {})
  t.ok(repeated[2]!.parsed, 'only the latest is remembered')
})

const page = { url: 'https://a.example', title: 'Title' }
const pageLength = page.url.length + page.title.length + 32

/** The first events of a stream that ends with thoughts, and how many characters of them are kept. */
interface Begun {
  events: Json[]
  kept: number
  think(text: string): Json
  end: Json[]
}

const ofChat: Begun = {
  events: [
    chunk({ reasoning: 'think' }),
    chunk({ content: 'a', annotations: [{ url_citation: page }] }),
    chunk({
      tool_calls: [
        {
          index: 0,
          id: 'ident',
          extra_content: { google: { thought_signature: 'proof' } },
          function: { arguments: '{' }
        }
      ]
    }),
    chunk({ tool_calls: [{ index: 0, function: { name: 'names', arguments: '"a":' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { name: 'names', arguments: '1' } }] }),
    chunk({ tool_calls: [{ index: 1, id: 'ident', function: { name: 'names', arguments: '' } }] }),
    { id: 'c', choices: [{ index: 2, delta: { content: 'a' }, finish_reason: 'stop' }] },
    { id: 'c', choices: [{ index: 1, delta: { content: 'a' }, finish_reason: 'stop', stop_reason: 'sequence' }] }
  ],
  // Ids, names and signatures are kept for the call and for its part.
  kept: 'think'.length + pageLength + 2 * 'identproofnamesidentnames'.length + '{"a":1'.length + 'sequence'.length,
  think: (reasoning) => chunk({ reasoning }),
  end: [chunk({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }, { finish_reason: 'stop' })]
}

const block = (index: number, content_block: Json): Json => ({ type: 'content_block_start', index, content_block })
const delta = (index: number, type: string, more: Json): Json => ({
  type: 'content_block_delta',
  index,
  delta: { type: `${type}_delta`, ...more }
})
const over = (index: number): Json => ({ type: 'content_block_stop', index })
const ofMessages: Begun = {
  events: [
    { type: 'message_start', message: { id: 'm' } },
    block(0, { type: 'thinking', thinking: 'think', signature: 'first' }),
    delta(0, 'signature', { signature: 'a longer one' }),
    over(0),
    block(1, { type: 'tool_use', id: 'ident', name: 'names', input: { a: 1 } }),
    over(1),
    block(2, { type: 'text', text: 'a' }),
    delta(2, 'citations', { citation: page }),
    over(2),
    block(3, { type: 'tool_use', id: 'ident', name: 'names', input: { a: 1 } }),
    block(4, { type: 'text', text: 'a' }),
    delta(4, 'citations', { citation: page }),
    block(5, { type: 'thinking', thinking: '' })
  ],
  kept:
    'thinka longer one'.length +
    2 * 'identnames'.length +
    pageLength +
    '{"a":1}'.length +
    // What a citation adds to its address and title is counted when it is told.
    (pageLength - 32),
  think: (thinking) => delta(5, 'thinking', { thinking }),
  end: [over(5), { type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }]
}

const at = (contentBlockIndex: number, more: Json): Json => ({ contentBlockIndex, ...more })
const thought = (index: number, more: Json): Json => at(index, { delta: { reasoningContent: more } })
const cite = (index: number): Json =>
  at(index, { delta: { citation: { title: page.title, location: { web: { url: page.url } } } } })
const ofConverse: Begun = {
  events: [
    { role: 'assistant' },
    thought(0, { text: 'think' }),
    thought(0, { signature: 'first' }),
    thought(0, { signature: 'a longer one' }),
    at(0, {}),
    thought(1, { redactedContent: 'YWJj' }),
    at(1, {}),
    at(2, { start: { toolUse: { toolUseId: 'ident', name: 'names' } } }),
    at(2, { delta: { toolUse: { input: '{"a":' } } }),
    at(3, { delta: { text: 'a' } }),
    cite(3),
    at(3, {}),
    at(4, { delta: { text: 'a' } }),
    cite(4),
    thought(5, { signature: 'open', redactedContent: 'YWJj' })
  ],
  kept:
    'thinka longer one'.length +
    'YWJj'.length +
    'identnames{"a":'.length +
    pageLength +
    (pageLength - 32) +
    'openYWJj'.length,
  think: (text) => thought(6, { text }),
  end: [at(2, { delta: { toolUse: { input: '1}' } } }), { stopReason: 'end_turn' }, { usage: {} }]
}

for (const [name, { events, kept, think, end }] of [
  ['openai-chat', ofChat],
  ['anthropic', ofMessages],
  ['bedrock', ofConverse]
] as const)
  t.test(`${name}: all that is kept of a stream counts, and nothing twice`, async (t) => {
    t.equal(last(name, [...events, ...end]), 'end')
    const room = think('x'.repeat(most - kept))
    t.match(told(name, [...events, room]).at(-1), /before it was complete/, 'there is room for so much')
    t.match(told(name, [...events, room, think('x')]).at(-1), much, 'and for no more')
  })

t.test('an answer has so many open blocks at most', async (t) => {
  const open = (count: number, make: (index: number) => Json): Json[] =>
    Array.from({ length: count }, (_, index) => make(index))
  const newBlock = (index: number): Json => block(index, { type: 'new' })
  const begun = { type: 'message_start', message: {} }
  t.equal(last('anthropic', [begun, ...open(10_000, newBlock), { type: 'message_stop' }]), 'end')
  t.match(last('anthropic', [begun, ...open(10_001, newBlock)]), many)
  t.match(told('anthropic', [begun, ...open(10_000, newBlock), over(0), newBlock(0)]).at(-1), /complete/)
  const newPart = (index: number): Json => at(index, { start: { new: {} } })
  t.match(told('bedrock', [{ role: 'assistant' }, ...open(10_000, newPart)]).at(-1), /complete/)
  t.match(last('bedrock', [{ role: 'assistant' }, ...open(10_001, newPart)]), many)
})
