// What encoders write for clients of chat completions and of Messages: member by member, whole and event by event.
import t from 'tap'
import { noUsage } from '../../core/money/usage.ts'
import type { AnswerEvent, AnswerPart, Finish, PartOpening } from '../../core/protocols/canonical/answer.ts'
import type { Proof } from '../../core/protocols/canonical/request.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { Untranslatable } from '../../core/protocols/translation/translation.ts'

type Json = any
type Writer = 'openai-chat' | 'anthropic'

const head = { id: 'x', created: 7, model: 'm', request: {}, usage: false }
const usage = { ...noUsage, input: 3, output: 2 }
const stop: Finish = { reason: 'stop' }

/** The whole answer with these parts. */
const whole = (name: Writer, parts: AnswerPart[], finish = stop): Json =>
  JSON.parse(JSON.stringify(codecs[name].encodeAnswer({ id: '', candidates: [{ parts, finish }], usage }, head)))

/** The events of a stream; the last of them is why there are no more, if there is a reason. */
function stream(name: Writer, events: AnswerEvent[], more = {}): Json[] {
  const encoder = codecs[name].encodeStream({ ...head, ...more })
  const lines: Json[] = []
  try {
    for (const event of events)
      encoder.push(event, (data, event) => {
        const payload = data === '[DONE]' ? data : JSON.parse(data)
        t.equal(event, name === 'anthropic' ? payload.type : '')
        lines.push(payload)
      })
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    lines.push(error.message)
  }
  return lines
}

const begin: AnswerEvent = { type: 'start', id: 'up' }
const open = (part: number, opening: PartOpening, candidate = 0): AnswerEvent => ({
  type: 'open',
  candidate,
  part,
  opening
})
const delta = (part: number, text: string): AnswerEvent => ({ type: 'delta', part, text })
const close = (part: number, text = '', proof?: Proof): AnswerEvent => ({
  type: 'close',
  part,
  text,
  ...(proof && { proof })
})
const finish = (candidate = 0, how = stop): AnswerEvent => ({ type: 'finish', candidate, finish: how })
const ended: AnswerEvent[] = [finish(), { type: 'end' }]
const call = (id: string, custom = false): PartOpening & AnswerPart & { type: 'tool_call' } => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom,
  input: '{"a":1}'
})
const token = { token: 'a', logprob: -1, top: [] }
const written = { token: 'a', logprob: -1, bytes: null, top_logprobs: [] }
const cited = { url: 'https://a.example', title: 'A', start: 1, end: 2 }
const ofGemini: Proof = { family: 'gemini', kind: 'call', value: 's' }
const ofMessages: Proof = { family: 'anthropic', kind: 'signature', value: 's' }
const picture = { type: 'image' as const, source: { kind: 'data' as const, mimeType: 'image/png', data: 'AAAA' } }

t.test('chat: a whole answer has what was said, and null for what was not', async (t) => {
  t.strictSame(whole('openai-chat', [{ type: 'text', text: 'a' }]), {
    id: 'chatcmpl-x',
    object: 'chat.completion',
    created: 7,
    model: 'm',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'a', refusal: null }, finish_reason: 'stop', logprobs: null }
    ],
    usage: { ...whole('openai-chat', []).usage, prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  })
  const said = (...parts: AnswerPart[]): Json => whole('openai-chat', parts).choices[0].message
  const silent = { role: 'assistant', content: null, refusal: null }
  t.strictSame(said(), silent)
  t.strictSame(said({ type: 'text', text: '' }), { ...silent, content: '' })
  t.strictSame(said({ type: 'refusal', text: 'No.' }), { ...silent, refusal: 'No.' })
  t.strictSame(said({ type: 'reasoning', text: 'a' }, { type: 'reasoning', text: 'b' }), {
    ...silent,
    reasoning_content: 'ab'
  })
  t.strictSame(
    said(
      { type: 'text', text: 'abc' },
      { type: 'text', text: 'd', citations: [cited, { url: 'https://b.example', title: '' }] }
    ),
    {
      ...silent,
      content: 'abcd',
      annotations: [
        {
          type: 'url_citation',
          url_citation: { url: 'https://a.example', title: 'A', start_index: 4, end_index: 5 }
        },
        { type: 'url_citation', url_citation: { url: 'https://b.example', title: '', start_index: 0, end_index: 0 } }
      ]
    }
  )
  t.strictSame(said(call('a'), { ...call('b', true), input: 'x' }, { ...call('c'), proof: ofGemini }), {
    ...silent,
    tool_calls: [
      { id: 'a', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
      { id: 'b', type: 'custom', custom: { name: 'f', input: 'x' } },
      {
        id: 'c',
        type: 'function',
        function: { name: 'f', arguments: '{"a":1}' },
        extra_content: { google: { thought_signature: 's' } }
      }
    ]
  })
  t.strictSame(said({ ...call('a'), proof: ofMessages }).tool_calls[0].extra_content, undefined)
  const image = (index: number, url: string): Json => ({ type: 'image_url', index, image_url: { url } })
  const file = { type: 'image' as const, source: { kind: 'file' as const, id: 'f' } }
  t.strictSame(
    said(picture, { type: 'image', source: { kind: 'url', url: 'https://a.example/x' } }, file as never).images,
    [image(0, 'data:image/png;base64,AAAA'), image(1, 'https://a.example/x'), image(2, '')]
  )
  const likely = whole('openai-chat', [
    { type: 'text', text: 'a', logprobs: [token] },
    { type: 'text', text: 'a', logprobs: [token] }
  ])
  t.strictSame(likely.choices[0].logprobs, { content: [written, written], refusal: null })
  const refused = whole('openai-chat', [{ type: 'refusal', text: 'a', logprobs: [token] }])
  t.equal(refused.choices[0].logprobs, null, 'of the text alone')
  const empty = codecs['openai-chat'].encodeAnswer(
    { id: '', candidates: [1, 2].map(() => ({ parts: [], finish: stop })), usage: undefined },
    head
  ) as Json
  t.match(empty, { choices: [{ index: 0 }, { index: 1 }], usage: { prompt_tokens: 0, completion_tokens: 0 } })
})

t.test('both say how the answer ended in their own words', async (t) => {
  for (const [how, chat, messages] of [
    [{ reason: 'stop' }, 'stop', 'end_turn'],
    [{ reason: 'sequence', sequence: '!' }, 'stop', 'stop_sequence'],
    [{ reason: 'length' }, 'length', 'max_tokens'],
    [{ reason: 'tool_calls' }, 'tool_calls', 'tool_use'],
    [{ reason: 'content_filter' }, 'content_filter', 'refusal'],
    [{ reason: 'pause' }, 'stop', 'pause_turn'],
    [{ reason: 'other', word: 'odd' }, 'odd', 'odd'],
    [{ reason: 'other' }, 'other', 'other']
  ] as [Finish, string, string][]) {
    t.equal(whole('openai-chat', [], how).choices[0].finish_reason, chat)
    const details = messages === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null
    const end = { stop_reason: messages, stop_sequence: how.sequence ?? null, stop_details: details }
    t.strictSame({ ...whole('anthropic', [], how), ...end }, whole('anthropic', [], how))
    const events = [begin, finish(0, how), { type: 'end' as const }]
    t.equal(stream('openai-chat', events).at(-2).choices[0].finish_reason, chat)
    t.strictSame(stream('anthropic', events).at(-2).delta, end)
  }
  t.equal(whole('anthropic', [{ type: 'refusal', text: 'No.' }]).stop_reason, 'refusal')
  t.equal(whole('anthropic', [{ type: 'refusal', text: 'No.' }], { reason: 'length' }).stop_reason, 'max_tokens')
  t.equal(
    stream('anthropic', [begin, open(0, { type: 'refusal' }), close(0), ...ended]).at(-2).delta.stop_reason,
    'refusal'
  )
  t.equal(
    stream('anthropic', [begin, open(0, { type: 'text' }), close(0), ...ended]).at(-2).delta.stop_reason,
    'end_turn'
  )
})

/** The deltas of the choices, with their number where it is not the first. */
const deltas = (events: AnswerEvent[], more = {}): Json[] =>
  stream('openai-chat', events, more).flatMap((chunk) =>
    chunk === '[DONE]' ? [] : chunk.choices.map(({ index, delta }: Json) => (index === 0 ? delta : [index, delta]))
  )

t.test('chat: every part of a stream has its member in a delta', async (t) => {
  const role = { role: 'assistant', content: '' }
  t.strictSame(
    stream('openai-chat', [begin, open(0, { type: 'text' }), delta(0, '"'), close(0), ...ended]),
    [
      [0, role, null],
      [0, { content: '"' }, null],
      [0, {}, 'stop']
    ]
      .map(([index, delta, finish_reason]): Json => ({
        id: 'chatcmpl-x',
        object: 'chat.completion.chunk',
        created: 7,
        model: 'm',
        choices: [{ index, delta, finish_reason }]
      }))
      .concat('[DONE]')
  )
  for (const [type, member] of [
    ['reasoning', 'reasoning_content'],
    ['refusal', 'refusal'],
    ['text', 'content']
  ] as const)
    t.strictSame(deltas([open(0, { type }), delta(0, 'a'), close(0)]), [role, { [member]: 'a' }])
  t.strictSame(deltas(ended), [role, {}], 'a choice without anything')
  const images = [picture, picture].flatMap((media, at) => [open(at, { type: 'media', media }), close(at)])
  const sound = { type: 'audio', source: picture.source }
  t.strictSame(deltas([...images, open(2, { type: 'media', media: sound as never })]), [
    role,
    ...[0, 1].map((index) => ({
      images: [{ type: 'image_url', index, image_url: { url: 'data:image/png;base64,AAAA' } }]
    }))
  ])
})

t.test('chat: calls are numbered by themselves, and have their names and signatures when they begin', async (t) => {
  const calls = [
    open(0, { ...call('a'), proof: ofGemini }),
    delta(0, '{}'),
    open(1, call('b', true)),
    delta(1, 'x'),
    close(0),
    close(1)
  ]
  t.strictSame(deltas(calls), [
    { role: 'assistant', content: null },
    {
      tool_calls: [
        {
          index: 0,
          id: 'a',
          type: 'function',
          function: { name: 'f', arguments: '' },
          extra_content: { google: { thought_signature: 's' } }
        }
      ]
    },
    { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
    { tool_calls: [{ index: 1, id: 'b', type: 'custom', custom: { name: 'f', input: '' } }] },
    { tool_calls: [{ index: 1, custom: { input: 'x' } }] }
  ])
  const mixed = [open(0, { type: 'text' }), delta(0, 'a'), close(0), open(1, call('a'))]
  t.equal(deltas(mixed)[2].tool_calls[0].index, 0)
  t.equal(deltas([open(0, call('a')), open(1, call('b'), 1)])[3][1].tool_calls[0].index, 0, 'of another choice')
})

t.test('chat: citations count from the begin of the text, and the likeliness of words is beside them', async (t) => {
  const events: AnswerEvent[] = [
    open(0, { type: 'text' }),
    delta(0, 'abc'),
    close(0),
    open(1, { type: 'reasoning' }),
    delta(1, 'xx'),
    close(1),
    open(2, { type: 'text' }),
    delta(2, 'de'),
    { type: 'cite', part: 2, citation: cited }
  ]
  t.strictSame(deltas(events).at(-1), {
    annotations: [
      { type: 'url_citation', url_citation: { url: 'https://a.example', title: 'A', start_index: 4, end_index: 5 } }
    ]
  })
  const [, likely, unlikely] = stream('openai-chat', [
    open(0, { type: 'text' }),
    { type: 'delta', part: 0, text: 'a', logprobs: [token] },
    delta(0, 'b')
  ])
  t.strictSame(likely.choices[0].logprobs, { content: [written], refusal: null })
  t.notOk('logprobs' in unlikely.choices[0])
})

t.test('chat: usage comes last where the client asked for it, and is null before', async (t) => {
  const events: AnswerEvent[] = [open(0, { type: 'text' }), delta(0, 'a'), { type: 'usage', usage }, ...ended]
  for (const chunk of stream('openai-chat', events)) t.notOk(chunk !== '[DONE]' && 'usage' in chunk)
  const chunks = stream('openai-chat', events, { usage: true })
  const last = chunks.at(-2)
  t.match(last, { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })
  for (const chunk of chunks.slice(0, -2)) t.equal(chunk.usage, null)
  t.match(stream('openai-chat', ended, { usage: true }).at(-2).usage, { prompt_tokens: 0, completion_tokens: 0 })
  t.strictSame(
    deltas([open(0, { type: 'text' }), finish(1, { reason: 'length' }), ...ended]),
    [{ role: 'assistant', content: '' }, [1, { role: 'assistant', content: '' }], [1, {}], {}],
    'every choice has its end'
  )
})

t.test('messages: a whole answer has a block for each part that says anything', async (t) => {
  const message = whole('anthropic', [{ type: 'text', text: 'a' }])
  t.strictSame(
    { ...message, usage: undefined },
    {
      id: 'msg_x',
      type: 'message',
      role: 'assistant',
      model: 'm',
      container: null,
      content: [{ type: 'text', text: 'a', citations: null }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      usage: undefined
    }
  )
  t.match(message.usage, { input_tokens: 3, output_tokens: 2 })
  const said = (...parts: AnswerPart[]): Json => whole('anthropic', parts).content
  t.strictSame(
    said({ type: 'text', text: '' }, { type: 'refusal', text: '' }, { type: 'reasoning', text: '' }, picture),
    []
  )
  t.strictSame(said({ type: 'refusal', text: 'No.' }), [{ type: 'text', text: 'No.', citations: null }])
  t.strictSame(said({ type: 'text', text: 'a', citations: [cited] })[0].citations, [
    {
      type: 'web_search_result_location',
      url: 'https://a.example',
      title: 'A',
      cited_text: '',
      encrypted_index: ''
    }
  ])
  const thought = (thinking: string, signature: string): Json => ({ type: 'thinking', thinking, signature })
  t.strictSame(
    said(
      { type: 'reasoning', text: 'a' },
      { type: 'reasoning', text: '', proof: ofMessages },
      { type: 'reasoning', text: 'a', proof: ofGemini }
    ),
    [thought('a', 'sluice1.'), thought('', 's'), thought('a', 'sluice1.gemini.call..s')]
  )
  const use = { type: 'tool_use', id: 'a', name: 'f', input: { a: 1 } }
  t.strictSame(said(call('a'), { ...call('a'), proof: ofGemini }), [use, thought('', 'sluice1.gemini.call..s'), use])
  t.match(
    codecs.anthropic.encodeAnswer({ id: '', candidates: [{ parts: [], finish: stop }], usage: undefined }, head),
    { usage: { input_tokens: 0, output_tokens: 0 } }
  )
})

t.test('messages: a call without whole arguments is left out of a cut answer, and breaks another', async (t) => {
  for (const input of ['', '{"a":', '[1]']) {
    const parts = [{ ...call('a'), input }]
    const events = (how: Finish): AnswerEvent[] => [
      begin,
      open(0, call('a')),
      ...(input === '' ? [] : [delta(0, input)]),
      close(0, input),
      finish(0, how),
      { type: 'end' }
    ]
    for (const reason of ['length', 'content_filter', 'other'] as const) {
      t.strictSame(whole('anthropic', parts, { reason }).content, [])
      t.equal(stream('anthropic', events({ reason })).at(-1).type, 'message_stop')
    }
    for (const reason of ['stop', 'tool_calls', 'sequence', 'pause'] as const) {
      t.throws(() => whole('anthropic', parts, { reason }), /arguments that are not a JSON object/)
      // Without any input a call of a whole stream has an empty object: the translation sees to that.
      if (input !== '') t.match(stream('anthropic', events({ reason })).at(-1), /arguments that are not a JSON object/)
    }
  }
})

const started = (index: number, content_block: Json): Json => ({ type: 'content_block_start', index, content_block })
const grown = (index: number, type: string, more: Json): Json => ({
  type: 'content_block_delta',
  index,
  delta: { type: `${type}_delta`, ...more }
})
const stopped = (index: number): Json => ({ type: 'content_block_stop', index })
const emptyText = { type: 'text', text: '', citations: null }
const emptyThought = { type: 'thinking', thinking: '', signature: '' }
/** The events of blocks. */
const blocks = (...events: AnswerEvent[]): Json[] => stream('anthropic', [begin, ...events]).slice(1)

t.test('messages: a stream begins and ends as the protocol wants it', async (t) => {
  const [first, ...rest] = stream('anthropic', [begin, { type: 'usage', usage }, ...ended])
  t.match(first, { message: { usage: { input_tokens: 0, output_tokens: 0 } } })
  t.strictSame(
    { ...first.message, usage: {} },
    {
      id: 'msg_x',
      type: 'message',
      role: 'assistant',
      model: 'm',
      container: null,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: {}
    }
  )
  t.match(rest, [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { input_tokens: 3, output_tokens: 2 } },
    { type: 'message_stop' }
  ])
})

t.test('messages: every part of a stream is a block of its kind', async (t) => {
  t.strictSame(blocks(open(0, { type: 'text' }), delta(0, 'a'), delta(0, ''), delta(0, '"'), close(0)), [
    started(0, emptyText),
    grown(0, 'text', { text: 'a' }),
    grown(0, 'text', { text: '"' }),
    stopped(0)
  ])
  t.strictSame(blocks(open(0, { type: 'refusal' }), delta(0, 'No.'), close(0)), [
    started(0, emptyText),
    grown(0, 'text', { text: 'No.' }),
    stopped(0)
  ])
  const signed = (index: number, signature: string): Json => grown(index, 'signature', { signature })
  const thought = [open(0, { type: 'reasoning' }), delta(0, 'a')]
  const begun = [started(0, emptyThought), grown(0, 'thinking', { thinking: 'a' })]
  t.strictSame(blocks(...thought, close(0, '', ofMessages)), [...begun, signed(0, 's'), stopped(0)])
  t.strictSame(blocks(...thought, close(0)), [...begun, signed(0, 'sluice1.'), stopped(0)])
  t.strictSame(blocks(open(0, { type: 'reasoning' }), close(0, '', ofMessages)), [
    started(0, emptyThought),
    signed(0, 's'),
    stopped(0)
  ])
  const use = (index: number): Json[] => [
    started(index, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
    grown(index, 'input_json', { partial_json: '{}' }),
    stopped(index)
  ]
  t.strictSame(blocks(open(0, call('a')), delta(0, '{}'), close(0, '{}')), use(0))
  t.strictSame(blocks(open(0, { ...call('a'), proof: ofGemini }), delta(0, '{}'), close(0, '{}')), [
    started(0, emptyThought),
    signed(0, 'sluice1.gemini.call..s'),
    stopped(0),
    ...use(1)
  ])
})

t.test('messages: what says nothing, is of another choice or has no place here is no block', async (t) => {
  for (const opening of [{ type: 'text' }, { type: 'reasoning' }, { type: 'media', media: picture }] as PartOpening[])
    t.strictSame(blocks(open(0, opening), close(0), open(1, { type: 'text' }), delta(1, 'a')), [
      started(0, emptyText),
      grown(0, 'text', { text: 'a' })
    ])
  const others: AnswerEvent[] = [
    open(0, { type: 'refusal' }, 1),
    delta(0, 'b'),
    { type: 'cite', part: 0, citation: cited },
    close(0),
    finish(1, { reason: 'length' })
  ]
  t.strictSame(blocks(...others), [])
  t.equal(blocks(finish(), ...others, { type: 'end' }).at(-2).delta.stop_reason, 'end_turn')
})

t.test('messages: blocks follow each other, and what comes early waits for its turn', async (t) => {
  const two = [
    open(0, call('a')),
    delta(0, '{'),
    open(1, call('b')),
    delta(1, '{"b":'),
    delta(1, '1}'),
    delta(0, '}'),
    close(1, '{"b":1}')
  ]
  const first = [
    started(0, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
    grown(0, 'input_json', { partial_json: '{' }),
    grown(0, 'input_json', { partial_json: '}' })
  ]
  const second = [
    started(1, { type: 'tool_use', id: 'b', name: 'f', input: {} }),
    grown(1, 'input_json', { partial_json: '{"b":1}' }),
    stopped(1)
  ]
  t.strictSame(blocks(...two), first)
  t.strictSame(blocks(...two, close(0, '{}')), [...first, stopped(0), ...second])
  const spoken = blocks(
    open(0, call('a')),
    delta(0, '{}'),
    open(1, { type: 'text' }),
    { type: 'cite', part: 1, citation: cited },
    delta(1, 'a'),
    close(0, '{}'),
    { type: 'cite', part: 1, citation: cited },
    delta(1, 'b'),
    close(1)
  )
  const citation = {
    type: 'web_search_result_location',
    url: 'https://a.example',
    title: 'A',
    cited_text: '',
    encrypted_index: ''
  }
  t.strictSame(spoken.slice(3), [
    started(1, emptyText),
    grown(1, 'text', { text: 'a' }),
    grown(1, 'citations', { citation }),
    grown(1, 'citations', { citation }),
    grown(1, 'text', { text: 'b' }),
    stopped(1)
  ])
  t.strictSame(blocks(open(0, { type: 'text' }), { type: 'cite', part: 0, citation: cited }, close(0)), [
    started(0, emptyText),
    grown(0, 'citations', { citation }),
    stopped(0)
  ])
})

t.test('messages: what waits is bounded, and what has been sent does not count', async (t) => {
  const mebi = 'x'.repeat(1024 * 1024)
  const waiting = (count: number, part = 1): AnswerEvent[] => Array.from({ length: count }, () => delta(part, mebi))
  const encoder = codecs.anthropic.encodeStream(head)
  const push = (...events: AnswerEvent[]): void => events.forEach((event) => encoder.push(event, () => {}))
  push(begin, open(0, call('a')), delta(0, '{}'), ...waiting(17, 0), open(1, call('b')), ...waiting(16))
  push(close(0, '{}'), open(2, call('c')), ...waiting(16, 2))
  t.throws(() => push(delta(2, 'x')), /too large to be put in order/)
})
