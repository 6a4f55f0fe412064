// What becomes of a whole answer where a stream was asked for, and of a stream where a whole answer was.
import t from 'tap'
import { maxDepth } from '../../core/bodies/lens.ts'
import { protocols } from '../../core/protocols/index.ts'

type Json = any
type Shaped = 'openai-chat' | 'anthropic' | 'bedrock'

const chunksOf = (name: Shaped, answer: Json): Json[] =>
  protocols[name].chunksOf(answer).map((chunk) => JSON.parse(chunk) as Json)

/** The answer that events are collected to. */
function collected(name: Shaped, events: Json[]): Json {
  const collector = protocols[name].collect()
  for (const event of events) collector.add(event)
  return collector.result()
}

/** JSON text that is nested so many levels deep. */
const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`

const silent = { role: 'assistant', content: null, refusal: null }
const chunk = (delta: Json, more: Json = {}): Json => ({ choices: [{ index: 0, delta, ...more }] })
/** The message that deltas of a chat are collected to. */
const messageOf = (...deltas: Json[]): Json =>
  collected(
    'openai-chat',
    deltas.map((delta) => chunk(delta))
  ).choices[0].message

t.test('chat: a whole answer becomes chunks with its role, its content and its end', async (t) => {
  const head = { id: 'c', object: 'chat.completion.chunk' }
  const first = { role: 'assistant', content: '' }
  const of = (index: number, delta: Json, more: Json): Json => ({ ...head, choices: [{ index, delta, ...more }] })
  t.strictSame(
    chunksOf('openai-chat', {
      id: 'c',
      object: 'chat.completion',
      choices: [
        {
          index: 1,
          message: { role: 'assistant', content: 'a', tool_calls: [{ id: 'a' }, { id: 'b', index: 4 }] },
          finish_reason: 'stop',
          logprobs: { content: [] }
        },
        { message: null }
      ],
      usage: { total_tokens: 1 }
    }),
    [
      of(1, first, { finish_reason: null }),
      of(
        1,
        {
          content: 'a',
          tool_calls: [
            { index: 0, id: 'a' },
            { index: 4, id: 'b' }
          ]
        },
        { finish_reason: null, logprobs: { content: [] } }
      ),
      of(1, {}, { finish_reason: 'stop' }),
      of(0, first, { finish_reason: null }),
      of(0, {}, { finish_reason: null, logprobs: null }),
      of(0, {}, { finish_reason: null }),
      { ...head, choices: [], usage: { total_tokens: 1 } }
    ]
  )
  t.strictSame(chunksOf('openai-chat', { id: 'c', choices: [], usage: null }), [])
})

t.test('chat: deltas become one message', async (t) => {
  t.strictSame(messageOf({}), silent)
  t.strictSame(messageOf({ role: 'user', content: 'a' }, { content: 'b', refusal: null }), { ...silent, content: 'ab' })
  t.strictSame(messageOf({ images: [1] }, { images: [2] }).images, [1, 2])
  t.strictSame(messageOf({ audio: { id: 'a', data: 'x' } }, { audio: { data: 'y', expires_at: 1 } }).audio, {
    id: 'a',
    data: 'xy',
    expires_at: 1
  })
  t.strictSame(messageOf({ other: 1 }, { other: 'a' }, { other: [1] }, { other: { a: 1 } }).other, { a: 1 })
  t.strictSame(messageOf({ other: [1] }, { other: 'a' }).other, 'a')
  t.strictSame(messageOf({ other: 'a' }, { other: [1] }).other, [1])
  t.strictSame(messageOf({ other: { a: 1 } }, { other: 2 }).other, 2)
  t.strictSame(messageOf({ tool_calls: 'none' }).tool_calls, 'none', 'what is no list of calls stays')
})

t.test('chat: the pieces of calls are put together, whether or not they are numbered', async (t) => {
  const piece = (more: Json, rest: Json = {}): Json => ({ tool_calls: [{ ...rest, function: more }] })
  const made = (...deltas: Json[]): Json => messageOf(...deltas).tool_calls
  const whole = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const numbered = piece({ name: 'f', arguments: '{' }, { index: 0, id: 'a', type: 'function' })
  t.strictSame(made(numbered, piece({ name: '', arguments: '}' }, { index: 0, id: '', type: null })), [whole])
  t.strictSame(made(numbered, piece({ name: 'f', arguments: '}' }, { index: 0, id: 'a' })), [whole])
  const bare = piece({ name: 'f', arguments: '{}' }, { id: 'a', type: 'function' })
  t.strictSame(made(bare, piece({ name: 'g', arguments: '1' }, { id: 'b' })), [
    whole,
    { id: 'b', function: { name: 'g', arguments: '1' } }
  ])
  t.strictSame(made(piece({ name: 'f', arguments: '{' }), piece({ name: 'g' }), piece({ arguments: '}' })), [
    { function: { name: 'f', arguments: '{' } },
    { function: { name: 'g', arguments: '}' } }
  ])
  t.strictSame(
    made({ tool_calls: [{ custom: { name: 'f', input: 'a' } }] }, { tool_calls: [{ custom: { input: 'b' } }] }),
    [{ custom: { name: 'f', input: 'ab' } }]
  )
  t.strictSame(made(piece({ name: 'f' }), { tool_calls: [{ extra: { x: { y: 1 } } }] }), [
    { function: { name: 'f' }, extra: { x: { y: 1 } } }
  ])
})

t.test('chat: a collected answer has its choices in order, and what was told about it', async (t) => {
  const events = [
    'none',
    { id: 'c', object: 'chat.completion.chunk', choices: 'none' },
    { id: 'd', model: 'm', choices: [{ index: 1, delta: { content: 'b' } }], usage: null },
    { choices: [{ delta: { content: 'a' }, logprobs: { content: [1] }, finish_reason: null }, null] },
    { choices: [{ index: 0, logprobs: { content: [2] }, finish_reason: 'stop' }] },
    { choices: [{ index: 0, logprobs: null, finish_reason: null }], usage: { total_tokens: 1 } },
    { choices: [], usage: null }
  ]
  t.strictSame(collected('openai-chat', events), {
    id: 'c',
    object: 'chat.completion',
    model: 'm',
    choices: [
      {
        index: 0,
        message: { ...silent, content: 'a' },
        finish_reason: 'stop',
        logprobs: { content: [1, 2] }
      },
      { index: 1, message: { ...silent, content: 'b' }, finish_reason: null, logprobs: null }
    ],
    usage: { total_tokens: 1 }
  })
  t.strictSame(collected('openai-chat', []), { object: 'chat.completion', choices: [] })
})

t.test('messages: a whole answer becomes the events of its blocks', async (t) => {
  const start = (index: number, content_block: Json): Json => ({ type: 'content_block_start', index, content_block })
  const delta = (index: number, delta: Json): Json => ({ type: 'content_block_delta', index, delta })
  const stop = (index: number): Json => ({ type: 'content_block_stop', index })
  const citation = { url: 'https://a.example' }
  const events = chunksOf('anthropic', {
    id: 'm',
    content: [
      { type: 'text', text: 'a', citations: [citation] },
      { type: 'text', text: 'b' },
      { type: 'thinking', thinking: 'c', signature: 's' },
      { type: 'tool_use', id: 'a', name: 'f', input: { a: 1 } },
      { type: 'other', data: 'd' }
    ],
    stop_reason: 'tool_use',
    stop_details: null,
    usage: { output_tokens: 2 }
  })
  t.strictSame(events, [
    {
      type: 'message_start',
      message: { id: 'm', content: [], stop_reason: null, stop_sequence: null, usage: { output_tokens: 2 } }
    },
    start(0, { type: 'text', text: '', citations: null }),
    delta(0, { type: 'text_delta', text: 'a' }),
    delta(0, { type: 'citations_delta', citation }),
    stop(0),
    start(1, { type: 'text', text: '' }),
    delta(1, { type: 'text_delta', text: 'b' }),
    stop(1),
    start(2, { type: 'thinking', thinking: '', signature: '' }),
    delta(2, { type: 'thinking_delta', thinking: 'c' }),
    delta(2, { type: 'signature_delta', signature: 's' }),
    stop(2),
    start(3, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
    delta(3, { type: 'input_json_delta', partial_json: '{"a":1}' }),
    stop(3),
    start(4, { type: 'other', data: 'd' }),
    stop(4),
    {
      type: 'message_delta',
      delta: { stop_reason: 'tool_use', stop_sequence: null, stop_details: null },
      usage: { output_tokens: 2 }
    },
    { type: 'message_stop' }
  ])
  const [first, last] = chunksOf('anthropic', {})
  t.strictSame(first.message, { content: [], stop_reason: null, stop_sequence: null })
  t.strictSame(last, {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 0 }
  })
  t.strictSame(chunksOf('anthropic', { stop_sequence: '!' })[1].delta.stop_sequence, '!')
})

t.test('messages: events become one message', async (t) => {
  const started = { type: 'message_start', message: { id: 'm', usage: { input_tokens: 1, output_tokens: 1 } } }
  const start = (block: Json): Json => ({ type: 'content_block_start', index: 0, content_block: block })
  const delta = (type: string, more: Json, index = 0): Json => ({
    type: 'content_block_delta',
    index,
    delta: { type, ...more }
  })
  const end = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2, other: null } }
  const made = (...events: Json[]): Json => collected('anthropic', [started, ...events, end])
  t.strictSame(made('none', { type: 'ping' }), {
    id: 'm',
    usage: { input_tokens: 1, output_tokens: 2 },
    stop_reason: 'end_turn',
    content: []
  })
  const blockOf = (...events: Json[]): Json => made(...events).content[0]
  t.strictSame(
    blockOf(
      start({ type: 'text', text: 'a', citations: null }),
      delta('text_delta', { text: 'b' }),
      delta('citations_delta', { citation: 1 }),
      delta('citations_delta', { citation: 2 }),
      delta('text_delta', { text: 'x' }, 1)
    ),
    { type: 'text', text: 'ab', citations: [1, 2] }
  )
  t.strictSame(
    blockOf(
      start({ type: 'thinking', thinking: '', signature: 'r' }),
      delta('thinking_delta', { thinking: 'a' }),
      delta('signature_delta', { signature: 's' })
    ),
    { type: 'thinking', thinking: 'a', signature: 's' }
  )
  t.strictSame(blockOf(start({ type: 'new', count: 1 }), delta('new_delta', { count: 2 })), { type: 'new', count: 2 })
  const call = { type: 'tool_use', id: 'a', name: 'f', input: {} }
  t.strictSame(blockOf(start(call)), call)
  t.strictSame(
    blockOf(
      start(call),
      delta('input_json_delta', { partial_json: '{"a":' }),
      delta('input_json_delta', { partial_json: '1}' })
    ),
    { ...call, input: { a: 1 } }
  )
  const broken = [start(call), delta('input_json_delta', { partial_json: '{"a":' })]
  t.equal(made(...broken), undefined, 'a call that is not whole')
  const cut = { type: 'message_delta', delta: { stop_reason: 'max_tokens' } }
  t.strictSame(collected('anthropic', [started, ...broken, cut]).content, [], 'a call that was cut off')
  const deep = (levels: number): Json => [start(call), delta('input_json_delta', { partial_json: nested(levels) })]
  t.not(made(...deep(maxDepth)), undefined)
  t.equal(made(...deep(maxDepth + 1)), undefined)
})

t.test('converse: a whole answer becomes the events of its blocks', async (t) => {
  const blocks = (...content: Json[]): Json[] => chunksOf('bedrock', { output: { message: { content } } })
  t.strictSame(blocks(), [{ role: 'assistant' }, { stopReason: 'end_turn' }, { metrics: {} }])
  t.strictSame(
    chunksOf('bedrock', {
      output: { message: { role: 'other', content: [] } },
      stopReason: 'max_tokens',
      usage: { inputTokens: 1 },
      metrics: { latencyMs: 1 }
    }),
    [{ role: 'other' }, { stopReason: 'max_tokens' }, { usage: { inputTokens: 1 }, metrics: { latencyMs: 1 } }]
  )
  const cited = { content: [{ text: 'a' }, { text: 'b' }], citations: [{ title: 'A' }] }
  const events = (block: Json): Json[] => blocks({ text: '' }, block).slice(3, -2)
  for (const [block, ...made] of [
    [{ text: 'a' }, { delta: { text: 'a' } }],
    [
      { toolUse: { toolUseId: 'a', name: 'f', input: { a: 1 } } },
      { start: { toolUse: { toolUseId: 'a', name: 'f' } } },
      { delta: { toolUse: { input: '{"a":1}' } } }
    ],
    [{ toolUse: { name: 'f' } }, { start: { toolUse: { name: 'f' } } }, { delta: { toolUse: { input: '{}' } } }],
    [
      { reasoningContent: { reasoningText: { text: 'a', signature: 's' } } },
      { delta: { reasoningContent: { text: 'a' } } },
      { delta: { reasoningContent: { signature: 's' } } }
    ],
    [{ reasoningContent: { reasoningText: {} } }],
    [{ reasoningContent: { redactedContent: 'eA==' } }, { delta: { reasoningContent: { redactedContent: 'eA==' } } }],
    [
      { citationsContent: cited },
      { delta: { text: 'a' } },
      { delta: { text: 'b' } },
      { delta: { citation: { title: 'A' } } }
    ],
    [
      { image: { format: 'png', source: { bytes: 'AAAA' } } },
      { start: { image: { format: 'png' } } },
      { delta: { image: { source: { bytes: 'AAAA' } } } }
    ]
  ] as Json[][])
    t.strictSame(
      events(block),
      [...made, {}].map((event) => ({ contentBlockIndex: 1, ...event })),
      JSON.stringify(block)
    )
})

t.test('converse: events become one answer', async (t) => {
  const end = [{ stopReason: 'end_turn' }, { usage: { inputTokens: 1 }, metrics: { latencyMs: 1 } }]
  const answer = (...events: Json[]): Json => collected('bedrock', [{ role: 'assistant' }, ...events, ...end])
  t.strictSame(answer('none'), {
    output: { message: { role: 'assistant', content: [] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 1 },
    metrics: { latencyMs: 1 }
  })
  const start = (start: Json): Json => ({ start, contentBlockIndex: 0 })
  const delta = (delta: Json, contentBlockIndex = 0): Json => ({ delta, contentBlockIndex })
  const content = (...events: Json[]): Json => answer(...events)?.output.message.content
  t.strictSame(content(delta({ text: 'a' }), delta({ text: 'b' }), delta({ text: 'c' }, 1)), [
    { text: 'ab' },
    { text: 'c' }
  ])
  const page = { title: 'A' }
  t.strictSame(content(delta({ text: 'a' }), delta({ citation: page })), [
    { citationsContent: { content: [{ text: 'a' }], citations: [page] } }
  ])
  t.strictSame(content(delta({ citation: page }))[0].citationsContent.content, [{ text: '' }])
  const think = (more: Json): Json => delta({ reasoningContent: more })
  t.strictSame(content(think({ text: 'a' }), think({ text: 'b' }), think({ signature: 's' })), [
    { reasoningContent: { reasoningText: { text: 'ab', signature: 's' } } }
  ])
  t.strictSame(content(think({ text: 'a' })), [{ reasoningContent: { reasoningText: { text: 'a' } } }])
  t.strictSame(content(think({ redactedContent: 'YQ==' }), think({ redactedContent: 'Yg==' })), [
    { reasoningContent: { redactedContent: 'YWI=' } }
  ])
  t.strictSame(content(start({ image: { format: 'png' } }), delta({ image: { source: { bytes: 'AAAA' } } })), [
    { image: { format: 'png', source: { bytes: 'AAAA' } } }
  ])
  t.strictSame(content(delta({ new: 1 })), [{}], 'what is not known has no text')
  const call = start({ toolUse: { toolUseId: 'a', name: 'f' } })
  const input = (text: string): Json => delta({ toolUse: { input: text } })
  const called = (input: Json): Json => [{ toolUse: { toolUseId: 'a', name: 'f', input } }]
  t.strictSame(content(call), called({}))
  t.strictSame(content(call, input('')), called({}))
  t.strictSame(content(call, input('{"a":'), input('1}')), called({ a: 1 }))
  t.equal(content(call, input('{"a":')), undefined, 'a call that is not whole')
  const cut = collected('bedrock', [call, input('{"a":'), { stopReason: 'max_tokens' }])
  t.strictSame(cut.output.message.content, [], 'a call that was cut off')
  t.not(content(call, input(nested(maxDepth))), undefined)
  t.equal(content(call, input(nested(maxDepth + 1))), undefined)
})
