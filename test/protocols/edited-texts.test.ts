// Which texts of chats and of Messages are shown to an editor, as which blocks, and where what it holds back goes.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { TextEditor, TextPart } from '../../core/protocols/index.ts'

type Json = any
type Speaker = 'openai-chat' | 'anthropic'

const same = (text: string): string => text
const upper = (text: string): string => text.toUpperCase()

/** An editor that notes what it is shown, changes each text, and appends to some blocks. */
function noting(change: (text: string) => string, tails: Record<string, string>): TextEditor & { seen: string[] } {
  const seen: string[] = []
  return {
    seen,
    text: ({ block, kind, text }) => (seen.push(`${block} ${kind}: ${text}`), change(text)),
    end: ({ block }) => (seen.push(`end ${block}`), tails[block] ?? '')
  }
}

/** What an editor is shown of events, what is sent for each of them, and what is sent at last. */
function edited(
  name: Speaker,
  events: Json[],
  change = same,
  tails: Record<string, string> = {}
): { seen: string[]; sent: Json[]; last: Json[] } {
  const editor = noting(change, tails)
  const answer = protocols[name].text!.answer()
  const sent = events.map((event) => {
    const text = typeof event === 'string' ? event : JSON.stringify(event)
    const made = answer.event(Message.event(text), editor)
    if (!made) return undefined
    const before = made.before.map(({ data }) => JSON.parse(data) as Json)
    return [...before, made.data === undefined ? 'same' : (JSON.parse(String(made.data)) as Json)]
  })
  const last = answer.end(editor).map(({ data }) => JSON.parse(data) as Json)
  return { seen: editor.seen, sent, last }
}

/** What an editor is shown of a whole answer, and what becomes of it; undefined when it stays. */
function editedWhole(name: Speaker, body: Json, change = same, tails: Record<string, string> = {}): Json {
  const editor = noting(change, tails)
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const made = protocols[name].text!.answer().whole(new Message('json', Buffer.from(text)), editor)
  return { seen: editor.seen, body: made && JSON.parse(String(made)) }
}

/** The texts of a prompt with their roles, and the members that are set when all are changed, or none. */
function prompted(name: Speaker, body: Json, change = upper): { seen: string[]; set: Json } {
  const seen: string[] = []
  const set: Json = {}
  protocols[name].text!.prompt(
    { json: (key) => body[key], set: (key, value) => void (set[key] = value) },
    ({ block, kind, role, text }: TextPart) => (seen.push(`${block} ${role} ${kind}: ${text}`), change(text))
  )
  return { seen, set }
}

const chunk = (delta: Json, more: Json = {}): Json => ({ id: 'c', choices: [{ index: 0, delta, ...more }] })
const shown = (delta: Json): string[] =>
  edited('openai-chat', [chunk(delta)]).seen.filter((line) => !line.startsWith('end'))

t.test('chat: every text of a delta but its names is shown, by its place', async (t) => {
  for (const [delta, ...seen] of [
    [{ role: 'assistant', type: 'a', id: 'a', name: 'a', tool_call_id: 'a', index: 'a' }],
    [{ content: '', refusal: null, other: 1, audio: null, function_call: 'none' }, '0.function_call reasoning: none'],
    [{ content: 'a' }, '0.content text: a'],
    [{ text: 'a' }, '0.text text: a'],
    [{ refusal: 'a' }, '0.refusal refusal: a'],
    [{ reasoning_content: 'a' }, '0.reasoning_content reasoning: a'],
    [
      {
        tool_calls: [
          { index: 2, id: 'x', function: { name: 'f', arguments: 'a' } },
          { custom: { name: 'f', input: 'b' } },
          { function: null }
        ]
      },
      '0.tool_calls.2.arguments arguments: a',
      '0.tool_calls.1.input arguments: b'
    ],
    [{ function_call: { name: 'f', arguments: 'a' } }, '0.function_call.arguments arguments: a'],
    [{ audio: { id: 'x', transcript: 'a' } }, '0.audio.transcript text: a'],
    [
      { content: [{ type: 'text', text: 'a' }, { index: 4, refusal: 'b' }, 'none'] },
      '0.content.0.text text: a',
      '0.content.4.refusal refusal: b'
    ],
    [
      { reasoning_details: [{ summary: 'a', thinking: 'b', data: 'c' }] },
      '0.reasoning_details.0.summary reasoning: a',
      '0.reasoning_details.0.thinking reasoning: b'
    ]
  ] as [Json, ...string[]][])
    t.strictSame(shown(delta), seen, JSON.stringify(delta))
})

t.test('chat: what is held back of a text is sent in its place', async (t) => {
  const tail = (delta: Json): Json => {
    const [block] = shown(delta)[0]!.split(' ')
    const { sent } = edited('openai-chat', [chunk(delta), chunk({}, { finish_reason: 'stop' })], same, {
      [block!]: 'Z'
    })
    t.strictSame(sent[0], undefined)
    t.equal(sent[1].at(-1), 'same')
    const { id, choices } = sent[1][0]
    t.strictSame([id, choices.length, choices[0].index, choices[0].finish_reason], ['c', 1, 0, null])
    return choices[0].delta
  }
  t.strictSame(tail({ content: 'a' }), { content: 'Z' })
  t.strictSame(tail({ audio: { id: 'x', transcript: 'a' } }), { audio: { transcript: 'Z' } })
  t.strictSame(tail({ function_call: { name: 'f', arguments: 'a' } }), { function_call: { arguments: 'Z' } })
  t.strictSame(tail({ tool_calls: [{ index: 2, function: { name: 'f', arguments: 'a' } }] }), {
    tool_calls: [{ index: 2, function: { arguments: 'Z' } }]
  })
  t.strictSame(tail({ tool_calls: [{ custom: { input: 'a' } }] }), {
    tool_calls: [{ index: 0, custom: { input: 'Z' } }]
  })
  t.strictSame(tail({ content: [{ type: 'text', index: 3, text: 'a' }] }), {
    content: [{ type: 'text', index: 3, text: 'Z' }]
  })
  t.strictSame(tail({ content: [{ refusal: 'a' }] }), { content: [{ refusal: 'Z' }] })
  const { last } = edited('openai-chat', [{ ...chunk({ content: 'a' }), usage: {} }], same, { '0.content': 'Z' })
  t.strictSame(last, [{ id: 'c', choices: [{ index: 0, delta: { content: 'Z' }, finish_reason: null }] }])
})

t.test('chat: a text ends with the next one, a call or its choice', async (t) => {
  const events = (...deltas: Json[]): string[] =>
    edited(
      'openai-chat',
      deltas.map((delta) => chunk(delta))
    ).seen
  t.strictSame(events({ content: 'a' }, { content: 'b' }, { reasoning: 'c' }, { content: 'd' }, { content: 'e' }), [
    '0.content text: a',
    '0.content text: b',
    '0.reasoning reasoning: c',
    'end 0.content',
    '0.content.1 text: d',
    'end 0.reasoning',
    '0.content.1 text: e',
    'end 0.content.1'
  ])
  const call = (index: number, input: string): Json => ({ tool_calls: [{ index, function: { arguments: input } }] })
  t.strictSame(events({ content: 'a' }, call(0, ''), call(0, 'b'), call(1, 'c'), call(0, 'd')), [
    '0.content text: a',
    'end 0.content',
    '0.tool_calls.0.arguments arguments: b',
    '0.tool_calls.1.arguments arguments: c',
    '0.tool_calls.0.arguments arguments: d',
    'end 0.tool_calls.0.arguments',
    'end 0.tool_calls.1.arguments'
  ])
  t.strictSame(events({ content: 'a' }, { function_call: {} }).at(-1), 'end 0.content')
  const ended = edited('openai-chat', [
    chunk(call(0, 'a')),
    chunk({ content: 'b' }, { finish_reason: 'stop' }),
    chunk({ content: '' }, { finish_reason: null })
  ])
  t.strictSame(ended.seen.slice(2), ['end 0.tool_calls.0.arguments', 'end 0.content'])
  const open = edited('openai-chat', [chunk(call(0, 'a')), chunk({ content: 'b' })])
  t.strictSame(open.seen, [
    '0.tool_calls.0.arguments arguments: a',
    '0.content text: b',
    'end 0.tool_calls.0.arguments',
    'end 0.content'
  ])
  const two = { id: 'c', choices: [{ delta: { content: 'a' } }, { delta: { content: 'b' } }] }
  t.strictSame(edited('openai-chat', [two]).seen.slice(0, 2), ['0.content text: a', '1.content text: b'])
})

t.test('chat: what is held back goes into the event that ends its text, if that has some of it', async (t) => {
  const tails = { '0.content': 'Z' }
  const sent = (...events: Json[]): Json => edited('openai-chat', events, same, tails).sent.at(-1)
  t.strictSame(sent(chunk({ content: 'a' }, { finish_reason: 'stop' })), [
    chunk({ content: 'aZ' }, { finish_reason: 'stop' })
  ])
  t.strictSame(sent(chunk({ content: 'a' }), chunk({ content: 'b', reasoning: 'c' })), [
    chunk({ content: 'bZ', reasoning: 'c' })
  ])
  t.strictSame(sent(chunk({ content: 'a' }), chunk({ reasoning: 'c' })), [
    { id: 'c', choices: [{ index: 0, delta: { content: 'Z' }, finish_reason: null }] },
    'same'
  ])
  t.strictSame(sent(chunk({ content: 'a' }), { id: 'c', choices: [{ index: 0, finish_reason: 'stop' }] }).length, 2)
  t.strictSame(sent(chunk({ content: 'a' }), 'none'), undefined)
  t.strictSame(sent(chunk({ content: 'a' }), { id: 'c', choices: 'none' }), undefined)
})

t.test('chat: what described a text is left out when that has changed, and from then on', async (t) => {
  const cited = (start_index: number): Json => [{ type: 'url_citation', url_citation: { url: 'a', start_index } }]
  const likely = { logprobs: { content: [] } }
  const events = [
    chunk({ annotations: cited(1) }, likely),
    chunk({ content: 'a', annotations: cited(2) }, likely),
    chunk({ annotations: cited(3) }, likely),
    chunk({ annotations: cited(3) })
  ]
  t.strictSame(edited('openai-chat', events).sent, [undefined, undefined, undefined, undefined])
  t.strictSame(edited('openai-chat', events, upper).sent, [
    undefined,
    [chunk({ content: 'A', annotations: cited(0) }, { logprobs: null })],
    [chunk({ annotations: cited(0) }, { logprobs: { content: [] } })],
    [chunk({ annotations: cited(0) })]
  ])
  t.strictSame(edited('openai-chat', [chunk({ content: 'a' }, { logprobs: null })], upper).sent[0], [
    chunk({ content: 'A' }, { logprobs: null })
  ])
  const odd = [{ url_citation: null }, { url_citation: 'a' }]
  t.strictSame(edited('openai-chat', [chunk({ content: 'a', annotations: odd })], upper).sent[0], [
    chunk({ content: 'A', annotations: odd })
  ])
  const other = { id: 'c', choices: [{ index: 1, delta: { annotations: cited(1) } }] }
  t.strictSame(edited('openai-chat', [events[1], other], upper).sent[1], undefined, 'of another choice')
})

t.test('chat: the texts of a whole answer are edited, each to its end', async (t) => {
  const annotations = (start_index: number): Json => [{ url_citation: { start_index } }]
  const body = {
    id: 'c',
    choices: [
      { message: { content: 'a', refusal: '', annotations: annotations(1) }, logprobs: { content: [] } },
      { message: null },
      { index: 4, message: { content: 'b' } }
    ]
  }
  const seen = ['0.content text: a', 'end 0.content', '4.content text: b', 'end 4.content']
  t.strictSame(editedWhole('openai-chat', body), { seen, body: undefined })
  const made = {
    id: 'c',
    choices: [
      { message: { content: 'AZ', refusal: '', annotations: annotations(0) }, logprobs: null },
      { message: null },
      { index: 4, message: { content: 'B' } }
    ]
  }
  t.strictSame(editedWhole('openai-chat', body, upper, { '0.content': 'Z' }), { seen, body: made })
  const twofold = `{"id":"b",${JSON.stringify(body).slice(1)}`
  t.strictSame(editedWhole('openai-chat', twofold, upper, { '0.content': 'Z' }), { seen, body: made })
  const editor = noting(upper, {})
  const spaced = new Message(
    'json',
    Buffer.from('{ "id": "c", "choices": [{ "message": {"content": "a"} }], "x": 1.0 }')
  )
  const kept = String(protocols['openai-chat'].text!.answer().whole(spaced, editor))
  t.equal(kept, '{ "id": "c", "choices": [{"message":{"content":"A"}}], "x": 1.0 }', 'all other bytes stay')
  t.strictSame(editedWhole('openai-chat', { choices: 'none' }, upper), { seen: [], body: undefined })
})

t.test('chat: the texts of a prompt have the roles of their messages', async (t) => {
  const body = {
    messages: [
      { role: 'system', content: 'a' },
      { role: 'user', content: [{ type: 'text', text: 'b' }] },
      { role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: 'c' } }] },
      { role: 1, content: 'd' }
    ]
  }
  const { seen, set } = prompted('openai-chat', body)
  t.strictSame(seen, [
    '0.content system text: a',
    '1.content.0.text user text: b',
    '2.tool_calls.0.arguments assistant arguments: c',
    '3.content undefined text: d'
  ])
  t.match(set.messages, [{ content: 'A' }, { content: [{ text: 'B' }] }, {}, { content: 'D' }])
  t.strictSame(prompted('openai-chat', body, same).set, {})
})

const delta = (index: number, type: string, more: Json): Json => ({
  type: 'content_block_delta',
  index,
  delta: { type: `${type}_delta`, ...more }
})
const start = (content_block: Json, index = 0): Json => ({ type: 'content_block_start', index, content_block })
const stop = (index = 0): Json => ({ type: 'content_block_stop', index })

t.test('messages: every text of a block is shown, by its place', async (t) => {
  for (const [block, ...seen] of [
    [{ type: 'text', text: 'a' }, '0.text text: a'],
    [{ type: 'thinking', thinking: 'a', signature: 's' }, '0.thinking reasoning: a'],
    [{ type: 'tool_use', name: 'f', input: {} }],
    [{ type: 'tool_use', name: 'f', input: { a: 1 } }, '0.input arguments: {"a":1}', 'end 0.input'],
    [{ type: 'tool_use', input: 'none' }],
    [{ type: 'other', content: 'a' }, '0.content text: a', 'end 0.content'],
    [
      { type: 'other', content: [{ text: 'a' }, 'none', { content: { title: 'b', stdout: 'c', stderr: 'd' } }] },
      '0.content.0.text text: a',
      'end 0.content.0.text',
      '0.content.2.content.title text: b',
      'end 0.content.2.content.title',
      '0.content.2.content.stdout text: c',
      'end 0.content.2.content.stdout',
      '0.content.2.content.stderr text: d',
      'end 0.content.2.content.stderr'
    ],
    [
      { type: 'other', content: [{ input: { a: 1 } }] },
      '0.content.0.input arguments: {"a":1}',
      'end 0.content.0.input'
    ],
    [
      { type: 'document', title: 'a', context: 'b', source: { type: 'text', data: 'c' } },
      '0.title text: a',
      'end 0.title',
      '0.context text: b',
      'end 0.context',
      '0.source text: c',
      'end 0.source'
    ],
    [{ type: 'document', source: { type: 'base64', data: 'c' } }],
    [{ type: 'document', source: 'none' }],
    [{ type: 'document', source: { type: 'content', content: 'a' } }, '0.source text: a', 'end 0.source'],
    [
      { type: 'document', source: { type: 'content', content: [{ text: 'a' }] } },
      '0.source.0.text text: a',
      'end 0.source.0.text'
    ],
    [{ type: 'other', source: { type: 'text', data: 'c' } }]
  ] as [Json, ...string[]][])
    t.strictSame(
      edited('anthropic', [start(block), stop()]).seen.filter((line) => !/^end 0.t(ext|hinking)$/.test(line)),
      seen,
      JSON.stringify(block)
    )
})

t.test('messages: what is held back of a block is sent before its end', async (t) => {
  for (const [type, member] of [
    ['text', 'text'],
    ['thinking', 'thinking'],
    ['input_json', 'partial_json']
  ] as const) {
    const said = delta(1, type, { [member]: 'a' })
    const tails = { [`1.${member}`]: 'Z' }
    const { seen, sent, last } = edited('anthropic', [said, said, stop(0), stop(1)], same, tails)
    const kind = { text: 'text', thinking: 'reasoning', partial_json: 'arguments' }[member]
    t.strictSame(seen, [`1.${member} ${kind}: a`, `1.${member} ${kind}: a`, `end 1.${member}`])
    const held = delta(1, type, { [member]: 'Z' })
    t.strictSame(sent, [undefined, undefined, undefined, [held, 'same']])
    t.strictSame(last, [])
    t.strictSame(edited('anthropic', [said], same, tails).last, [held])
    t.strictSame(edited('anthropic', [said], upper).sent, [[delta(1, type, { [member]: 'A' })]])
  }
  const signed = [delta(0, 'thinking', { thinking: 'a' }), delta(0, 'signature', { signature: 's' }), stop()]
  t.strictSame(edited('anthropic', signed, same, { '0.thinking': 'Z' }).sent, [
    undefined,
    [delta(0, 'thinking', { thinking: 'Z' }), 'same'],
    undefined
  ])
  const both = [start({ type: 'other', text: 'a', thinking: 'b' }), stop()]
  t.strictSame(edited('anthropic', both).seen.slice(2), ['end 0.text', 'end 0.thinking'])
  const begun = [start({ type: 'text', text: 'a' }), delta(0, 'text', { text: 'b' }), stop()]
  t.strictSame(edited('anthropic', begun).seen, ['0.text text: a', '0.text text: b', 'end 0.text'])
  t.strictSame(edited('anthropic', begun, upper).sent[0], [start({ type: 'text', text: 'A' })])
  t.strictSame(edited('anthropic', [start({ type: 'other', content: 'a' })], same, { '0.content': 'Z' }).sent, [
    [start({ type: 'other', content: 'aZ' })]
  ])
})

t.test('messages: other events have no text', async (t) => {
  const others = [
    'none',
    '[1]',
    { type: 'ping', text: 'a', delta: { text: 'a' }, content_block: { text: 'a' } },
    { type: 'content_block_start', content_block: 'none' },
    { type: 'content_block_delta', delta: 'none' },
    delta(0, 'text', { text: '' })
  ]
  const { seen, sent } = edited('anthropic', others, upper)
  t.strictSame(seen, [])
  t.strictSame(
    sent,
    others.map(() => undefined)
  )
  const unnumbered = { type: 'content_block_delta', delta: { type: 'text_delta', text: 'a' } }
  t.strictSame(edited('anthropic', [unnumbered]).seen[0], '0.text text: a')
})

t.test('messages: the texts of a whole answer are edited, each to its end', async (t) => {
  const body = {
    id: 'm',
    content: [{ type: 'text', text: 'a' }, 'none', { type: 'tool_use', input: { a: 'b' } }]
  }
  const seen = ['0.text text: a', 'end 0.text', '2.input arguments: {"a":"b"}', 'end 2.input']
  t.strictSame(editedWhole('anthropic', body), { seen, body: undefined })
  t.strictSame(editedWhole('anthropic', body, upper, { '0.text': 'Z' }), {
    seen,
    body: { id: 'm', content: [{ type: 'text', text: 'AZ' }, 'none', { type: 'tool_use', input: { A: 'B' } }] }
  })
  for (const none of ['none', '[1]', '{"content":"a"}'])
    t.strictSame(editedWhole('anthropic', none, upper), { seen: [], body: undefined })
})

t.test('messages: the texts of a prompt have the roles of their turns, and results those of tools', async (t) => {
  const body = {
    system: [{ type: 'text', text: 'a' }],
    messages: [
      { role: 'user', content: 'b' },
      { role: 'assistant', content: [{ type: 'text', text: 'c' }, 'none'] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', content: 'd' },
          { type: 'text', text: 'e' }
        ]
      }
    ]
  }
  const { seen, set } = prompted('anthropic', body)
  t.strictSame(seen, [
    'system.0.text system text: a',
    '0.content user text: b',
    '1.0.text assistant text: c',
    '2.0.content tool text: d',
    '2.1.text user text: e'
  ])
  t.match(set, { system: [{ text: 'A' }], messages: [{ content: 'B' }, { content: [{ text: 'C' }, 'none'] }] })
  t.strictSame(prompted('anthropic', body, same).set, {})
  t.strictSame(prompted('anthropic', { system: 'a' }), { seen: ['system system text: a'], set: { system: 'A' } })
  t.strictSame(prompted('anthropic', { system: '' }), { seen: [], set: {} })
})
