// What is read of chat completions, whole and streamed: every part of a message, and where each of them ends.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { upstreamCodecs } from '../../core/protocols/translation/codecs.ts'
import { told } from '../kit/decoded.ts'

type Json = any

const read = (body: Json): Json => upstreamCodecs['openai-chat'].decodeAnswer(body, 'id')
const choice = (message: Json, more: Json = {}): Json => read({ choices: [{ message, ...more }] }).candidates[0]

t.test('a whole answer has the parts of its messages', async (t) => {
  const call = { id: 'a', function: { name: 'f', arguments: '{}' } }
  const made = { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{}' }
  const page = (more: Json): Json => ({ type: 'url_citation', url_citation: { url: 'https://a.example', ...more } })
  const google = (thought_signature: Json): Json => ({ extra_content: { google: { thought_signature } } })
  for (const [message, ...parts] of [
    [undefined],
    [{}],
    [{ content: '', refusal: '', reasoning: '' }],
    [{ content: 'a' }, { type: 'text', text: 'a' }],
    [{ content: [{ text: 'a' }, { type: 'other' }, { text: 'b' }] }, { type: 'text', text: 'ab' }],
    [
      { reasoning_content: 'a', reasoning: 'b' },
      { type: 'reasoning', text: 'a' }
    ],
    [
      { reasoning_content: '', reasoning: 'b' },
      { type: 'reasoning', text: 'b' }
    ],
    [{ refusal: 'No.' }, { type: 'refusal', text: 'No.' }],
    [
      {
        content: '',
        annotations: [page({ title: 'A', start_index: 1, end_index: 2 }), page({}), {}, { url_citation: { url: 1 } }]
      },
      {
        type: 'text',
        text: '',
        citations: [
          { url: 'https://a.example', title: 'A', start: 1, end: 2 },
          { url: 'https://a.example', title: '' }
        ]
      }
    ],
    [
      { images: [{ image_url: { url: 'https://a.example' } }, { image_url: {} }, {}] },
      { type: 'image', source: { kind: 'url', url: 'https://a.example' } }
    ],
    [{ tool_calls: [call] }, made],
    [{ tool_calls: [{ ...call, id: '' }] }, { ...made, id: 'call_id_0_0' }],
    [
      { content: 'a', tool_calls: [{ ...call, id: '' }] },
      { type: 'text', text: 'a' },
      { ...made, id: 'call_id_0_1' }
    ],
    [{ tool_calls: [{ id: 'a', custom: { name: 'f', input: 'x' } }] }, { ...made, custom: true, input: 'x' }],
    [{ tool_calls: [{ ...call, ...google('s') }] }, { ...made, proof: { family: 'gemini', kind: 'call', value: 's' } }],
    [{ tool_calls: [{ ...call, ...google('') }] }, made],
    [{ tool_calls: [{ ...call, ...google(1) }] }, made],
    [{ function_call: { name: 'f', arguments: '{}' } }, { ...made, id: 'call_id_0_0' }]
  ] as [Json, ...Json[]][])
    t.strictSame(choice(message).parts, parts, JSON.stringify(message))
  t.throws(() => choice({ tool_calls: [{ id: 'a', function: { name: '' } }] }), /without a name/)
  t.throws(() => choice({ images: [{ image_url: { url: 'none' } }] }), /a picture that is none/)
})

t.test('a whole answer has its choices, how each ended, and what was used', async (t) => {
  for (const none of [[], {}, { choices: 'none' }]) t.throws(() => read(none), /without choices/)
  const many = (count: number): Json => ({ choices: Array.from({ length: count }, () => ({})) })
  t.equal(read(many(128)).candidates.length, 128)
  t.throws(() => read(many(129)), /more choices/)
  const calls = { tool_calls: [{ function: { name: 'f' } }] }
  t.equal(read({ choices: [{}, { message: calls }] }).candidates[1].parts[0].id, 'call_id_1_0')
  t.equal(read({ choices: [{ index: 4, message: calls }] }).candidates[0].parts[0].id, 'call_id_4_0')
  t.strictSame(choice({}).finish, { reason: 'stop' })
  t.strictSame(choice({ content: 'a', ...calls }, { finish_reason: 'stop' }).finish, { reason: 'tool_calls' })
  t.strictSame(choice({}, { finish_reason: 'stop', stop_reason: '!' }).finish, { reason: 'sequence', sequence: '!' })
  t.strictSame(choice({}, { finish_reason: 'stop', stop_reason: 5 }).finish, { reason: 'stop' })
  t.strictSame(choice({}, { finish_reason: 'length', stop_reason: '!' }).finish, { reason: 'length' })
  const logprobs = { content: [{ token: 'a', logprob: -1 }] }
  const token = { token: 'a', logprob: -1, top: [] }
  t.strictSame(choice({ reasoning: 'x', content: 'a' }, { logprobs }).parts[1].logprobs, [token])
  t.strictSame(choice({ reasoning: 'x' }, { logprobs }).parts, [{ type: 'reasoning', text: 'x' }])
  t.notOk('logprobs' in choice({ content: 'a' }, { logprobs: { content: [] } }).parts[0])
  const used = { prompt_tokens: 3, completion_tokens: 2 }
  const insane = { prompt_tokens: -1, completion_tokens: 2 }
  for (const [body, input] of [
    [{ choices: [], usage: used }, 3],
    [{ choices: [], x_groq: { usage: used } }, 3],
    [{ choices: [{ usage: used }] }, 3],
    [{ choices: [{}, { usage: used }] }, undefined],
    [{ choices: [], usage: insane, x_groq: { usage: used } }, undefined],
    [{ choices: [] }, undefined]
  ] as const) {
    const { usage } = read(body)
    t.equal(typeof usage === 'object' ? usage.input : usage, input, JSON.stringify(body))
  }
  t.equal(read({ id: 'a', choices: [] }).id, 'a')
})

const chunk = (delta: Json, more: Json = {}): Json => ({ id: 'c', choices: [{ index: 0, delta, ...more }] })
const stop = chunk({}, { finish_reason: 'stop' })
/** What is told of a choice besides its begin and its end. */
const stream = (...deltas: Json[]): string[] =>
  told('openai-chat', [...deltas.map((delta) => chunk(delta)), stop]).slice(1, -2)
const piece = (index: number | undefined, more: Json, id?: string): Json => ({
  tool_calls: [{ ...(index !== undefined && { index }), ...(id && { id }), function: more }]
})

t.test('a stream has the parts of its deltas, and a new part after another one', async (t) => {
  t.strictSame(stream({ function_call: { name: 'f', arguments: '{"a"' } }, { function_call: { arguments: ':1}' } }), [
    'open 0/0 tool_call call_id_0_0 f',
    '0: {"a"',
    '0: :1}',
    'close 0 {"a":1}'
  ])
  const images = { images: [{ image_url: { url: 'https://a.example' } }] }
  for (const between of [images, piece(0, { name: 'f', arguments: '{}' }, 'a'), { refusal: 'No.' }]) {
    const lines = stream({ content: 'a' }, { content: 'b' }, between, { content: 'c' }, { content: 'd' })
    t.strictSame(lines.slice(0, 4), ['open 0/0 text', '0: a', '0: b', 'close 0'])
    t.strictSame(
      lines.filter((line) => / text$|^2:/.test(line)),
      ['open 0/0 text', 'open 0/2 text', '2: c', '2: d']
    )
  }
  const whole = { id: 'c', choices: [{ message: { content: 'a' }, finish_reason: 'stop' }] }
  t.strictSame(told('openai-chat', [whole]).slice(1, -2), ['open 0/0 text', '0: a', 'close 0'])
  const used = { usage: { prompt_tokens: 3, completion_tokens: 2 } }
  t.strictSame(told('openai-chat', [{ ...stop, ...used }, { choices: [] }]).slice(1), ['usage', 'finish 0 stop', 'end'])
  t.strictSame(told('openai-chat', [{ id: 'c' }, stop]), ['start c', 'finish 0 stop', 'end'])
  t.strictSame(told('openai-chat', [{ error: { message: 'No.' } }]), ['refused: No.'])
  t.strictSame(told('openai-chat', [{ error: {} }]), ['refused: The upstream reported an error.'])
})

t.test('calls of a stream are told apart by number, id or name, and may be written in turns', async (t) => {
  const two = ['open 0/0 tool_call a f', 'open 0/1 tool_call b g']
  const opens = (...deltas: Json[]): string[] => stream(...deltas).filter((line) => line.startsWith('open'))
  const ofFirst = (...deltas: Json[]): string | undefined =>
    stream(...deltas).find((line) => line.startsWith('close 0'))
  const unnumbered = [
    piece(undefined, { name: 'f', arguments: '{"a"' }, 'a'),
    piece(undefined, { arguments: ':1}' }),
    piece(undefined, { name: 'g', arguments: '{}' }, 'b'),
    piece(undefined, { arguments: ' ' })
  ]
  t.strictSame(opens(...unnumbered), two)
  t.equal(ofFirst(...unnumbered), 'close 0 {"a":1}')
  for (const first of ['{"a"', ''])
    t.equal(
      ofFirst(
        piece(0, { name: 'f', arguments: first }, 'a'),
        piece(1, { name: 'g', arguments: '{}' }, 'b'),
        piece(0, { arguments: '{"a":1}'.slice(first.length) })
      ),
      'close 0 {"a":1}'
    )
  t.strictSame(opens(piece(0, { name: 'f' }, 'a'), { content: 'x' }), [two[0], 'open 0/1 text'], 'at once')
  t.strictSame(opens(piece(0, { name: 'f' }), piece(0, {}, 'a')), [two[0]], 'but not without an id')
  t.strictSame(opens(piece(0, { arguments: '' }, 'a'), piece(0, { name: 'f' })), [two[0]])
  const early = [
    piece(0, { arguments: '{' }, 'a'),
    piece(1, { name: 'g' }, 'b'),
    piece(0, { name: 'f', arguments: '}' })
  ]
  t.strictSame(opens(...early), ['open 0/0 tool_call b g', 'open 0/1 tool_call a f'])
  const custom = { tool_calls: [{ index: 0, id: 'a', custom: { name: 'f', input: 'x' } }] }
  t.strictSame(stream(custom), ['open 0/0 tool_call a f custom', '0: x', 'close 0 x'])
})

t.test('events with text alone are not parsed once there has been one like them', async (t) => {
  const decoder = upstreamCodecs['openai-chat'].decodeStream('id')
  const parsed = (event: Json): boolean => {
    const message = Message.event(JSON.stringify(event))
    decoder.push(message, () => {})
    return message.parsed
  }
  for (const more of [{}, { role: 'assistant' }, { refusal: '' }, { tool_calls: [] }, { refusal: null }]) {
    t.ok(parsed(chunk({ content: 'a', ...more })), JSON.stringify(more))
    t.notOk(parsed(chunk({ content: 'b', ...more })), JSON.stringify(more))
  }
  t.ok(parsed(chunk({ content: null })))
  t.ok(parsed(chunk({ content: '' })))
  t.notOk(parsed(chunk({ content: 'c', refusal: null })), 'what says nothing is not remembered in its place')
  const call = [{ index: 0, id: 'a', function: { name: 'f', arguments: ' ' } }]
  for (const say of [
    (content: string) => chunk({ content, tool_calls: call }),
    (content: string) => chunk({ content, annotations: [{ url_citation: { url: 'https://a.example' } }] }),
    (content: string) => chunk({ content }, { logprobs: { content: [{ token: 'a', logprob: -1 }] } }),
    (content: string) => ({ ...chunk({ content }), usage: { prompt_tokens: 3, completion_tokens: 2 } })
  ])
    for (const content of 'ab') t.ok(parsed(say(content)), JSON.stringify(say(content)))
})
