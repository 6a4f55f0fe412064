// What Gemini's upstreams tell, chunk by chunk, and what its clients are told: streamed as in the whole.
import t from 'tap'
import type { AnswerEvent, ModelAnswer, PartOpening } from '../../core/protocols/canonical/answer.ts'
import { Assembler } from '../../core/protocols/canonical/assemble.ts'
import { mostKept } from '../../core/protocols/canonical/codec.ts'
import type { Proof } from '../../core/protocols/canonical/request.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { answerHead } from '../kit/conversations.ts'
import { cut, told } from '../kit/decoded.ts'

type Json = any

const signature = 'c2ln'
const said = (...parts: Json[]): Json => ({ candidates: [{ content: { parts } }] })
const ended = (more: Json = {}): Json => ({ candidates: [{ finishReason: 'STOP', ...more }] })
/** What a stream tells between its begin and the end of its only candidate. */
const parts = (...chunks: Json[]): string[] => told('gemini', [...chunks, ended()]).slice(1, -2)

t.test('chunks are told as parts: what is alike goes on, and all else begins anew', async (t) => {
  t.same(parts(said({ text: 'a' }), said({ text: 'b' }), said({ text: '' })), [
    'open 0/0 text',
    '0: a',
    '0: b',
    'close 0'
  ])
  t.same(parts(said({ text: 'a', thought: true }, { text: 'b' }, { text: 'c' })), [
    'open 0/0 reasoning',
    '0: a',
    'close 0',
    'open 0/1 text',
    '1: b',
    '1: c',
    'close 1'
  ])
  const picture = { inlineData: { mimeType: 'Image/PNG', data: 'A-_A' } }
  t.same(parts(said({ text: 'a' }, picture, { other: 1 }, { text: 'b' })), [
    'open 0/0 text',
    '0: a',
    'close 0',
    'open 0/1 media {"kind":"data","mimeType":"image/png","data":"A+/A"}',
    'close 1',
    'open 0/2 text',
    '2: b',
    'close 2'
  ])
  t.same(parts(said({ text: '' })), [], 'an empty text is none')
})

t.test('a signature ends the part that it is of', async (t) => {
  t.same(parts(said({ text: 'a', thoughtSignature: signature }, { text: 'b' })), [
    'open 0/0 text',
    '0: a',
    `close 0 (signature ${signature})`,
    'open 0/1 text',
    '1: b',
    'close 1'
  ])
  const late = { text: '', thoughtSignature: signature }
  t.same(parts(said({ text: 'a' }), said(late), said(late)), [
    'open 0/0 text',
    '0: a',
    `close 0 (signature ${signature})`
  ])
  t.same(parts(said({ text: 'a' }, { ...late, thought: true })), [
    'open 0/0 text',
    '0: a',
    'close 0',
    'open 0/1 reasoning',
    `close 1 (signature ${signature})`
  ])
  t.same(parts(said({ text: 'a', thought: true }, { ...late, thought: true }, { text: 'b' })), [
    'open 0/0 reasoning',
    '0: a',
    `close 0 (signature ${signature})`,
    'open 0/1 text',
    '1: b',
    'close 1'
  ])
  t.same(parts(said(late)), [])
  t.same(parts(said({ text: 'a' }, { text: '', thought: true })), ['open 0/0 text', '0: a', 'close 0'])
})

t.test('a call is told whole, and at once', async (t) => {
  const call = (more: Json): Json => said({ functionCall: { name: 'f', ...more } })
  t.same(told('gemini', [call({ id: 'a', args: { b: 1 } }), call({}), ended()]), [
    'start',
    'open 0/0 tool_call a f',
    '0: {"b":1}',
    'close 0 {"b":1}',
    'open 0/1 tool_call call_id_0_1 f',
    '1: {}',
    'close 1 {}',
    'finish 0 tool_calls',
    'end'
  ])
  t.equal(told('gemini', [call({}), ended()]).at(-2), 'finish 0 tool_calls')
  t.equal(told('gemini', [said({ text: 'a' }), ended()]).at(-2), 'finish 0 stop')
  t.match(told('gemini', [said({ functionCall: { id: 'a' } })]).at(-1), /without a name/)
  for (const piece of [{ partialArgs: [] }, { willContinue: true }, { partialArgs: [], willContinue: true }])
    t.match(told('gemini', [call(piece)]).at(-1), /in pieces/)
  t.equal(told('gemini', [call({ willContinue: false }), ended()]).at(-1), 'end')
  const other = { candidates: [{ index: 1, content: { parts: [{ text: 'b' }] }, finishReason: 'STOP' }] }
  const picture = said({ inlineData: { mimeType: 'image/png', data: 'AAAA' } })
  for (const [first, lines] of [
    [call({ id: 'a' }), 3],
    [picture, 2]
  ] as const)
    t.match(told('gemini', [first, other, ended()])[lines], /^close 0/, 'before another candidate goes on')
})

t.test('the likeliness of tokens is of the first text of its chunk', async (t) => {
  const likely = {
    chosenCandidates: [{ token: 'x', logProbability: -1 }],
    topCandidates: [{ candidates: [{ token: 'y' }] }]
  }
  const chunk = (...texts: Json[]): Json => ({ candidates: [{ content: { parts: texts }, logprobsResult: likely }] })
  t.same(
    parts(chunk({ text: 'a', thought: true }, { text: 'b' }, { text: '', thoughtSignature: signature }, { text: 'c' })),
    [
      'open 0/0 reasoning',
      '0: a',
      'close 0',
      'open 0/1 text',
      '1: b (x)',
      `close 1 (signature ${signature})`,
      'open 0/2 text',
      '2: c',
      'close 2'
    ]
  )
  t.same(parts(chunk({ text: '' })), ['open 0/0 text', '0:  (x)', 'close 0'])
  const [part] = codecs.gemini.decodeAnswer(
    { ...chunk({ text: 'a' }), ...ended(chunk({ text: 'a' }).candidates[0]) },
    ''
  ).candidates[0]!.parts
  t.strictSame((part as Json).logprobs, [{ token: 'x', logprob: -1, top: [{ token: 'y', logprob: 0 }] }])
})

t.test('sources are of the text that is open', async (t) => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: 'https://a.example', title: 'A' } }, { web: {} }, { other: 1 }]
  }
  const grounded = { candidates: [{ groundingMetadata }] }
  t.same(parts(said({ text: 'a' }), grounded), [
    'open 0/0 text',
    '0: a',
    'cite 0 https://a.example undefined-undefined',
    'close 0'
  ])
  t.same(parts(grounded), [])
  t.same(parts(said({ text: 'a', thought: true }), grounded), ['open 0/0 reasoning', '0: a', 'close 0'])
})

t.test('what is an answer of Gemini, and where one ends', async (t) => {
  const at = (index: unknown, more: Json = { finishReason: 'STOP' }): Json => ({ candidates: [{ index, ...more }] })
  t.same(told('gemini', [at(1), at(0)]), ['start', 'finish 0 stop', 'finish 1 stop', 'end'])
  t.equal(told('gemini', [at(127)]).at(-2), 'finish 127 stop')
  for (const index of [-1, 0.5, 128]) t.match(told('gemini', [at(index)]).at(-1), /impossible number/)
  t.same(told('gemini', [{ responseId: 'r' }]), ['start r', cut])
  t.equal(told('gemini', [said({ text: 'a' }), at(0, { finishReason: 'FINISH_REASON_UNSPECIFIED' })]).at(-1), cut)
  t.equal(told('gemini', [at(0), at(1, {})]).at(-1), cut, 'each candidate has an end')
  t.same(told('gemini', [{ error: { message: 'No.' } }]), ['refused: No.'])
  t.same(told('gemini', [{ error: {} }]), ['refused: The upstream reported an error.'])
  for (const [feedback, words] of [
    [{ blockReason: 'SAFETY' }, 'SAFETY'],
    [{ blockReason: 'SAFETY', blockReasonMessage: 'No.' }, 'No.']
  ] as const)
    t.same(told('gemini', [{ promptFeedback: feedback }]), [
      'start',
      'open 0/0 refusal',
      `0: ${words}`,
      'close 0',
      'finish 0 content_filter',
      'end'
    ])
  const counts = { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 }
  const insane = { ...counts, candidatesTokenCount: -4 }
  const { usage } = codecs.gemini.decodeAnswer(
    [{ ...ended(), usageMetadata: counts }, {}, { usageMetadata: insane }],
    ''
  )
  t.match(usage, { input: 3, output: 4 })
})

const usage: Json = { input: 1, cached_input: 0, cache_write: 0, output: 2, reasoning: 0 }
const stop = { reason: 'stop' } as const
const open = (part: number, opening: PartOpening, candidate = 0): AnswerEvent => ({
  type: 'open',
  candidate,
  part,
  opening
})
const delta = (part: number, text: string, more: Json = {}): AnswerEvent => ({ type: 'delta', part, text, ...more })
const close = (part: number, text = '', proof?: Proof): AnswerEvent => ({
  type: 'close',
  part,
  text,
  ...(proof && { proof })
})
const finish = (reason: Json = stop, candidate = 0): AnswerEvent => ({ type: 'finish', candidate, finish: reason })
const call = (id: string, proof?: Proof): PartOpening => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom: false,
  ...(proof && { proof })
})
const proof: Proof = { family: 'anthropic', kind: 'signature', value: 's' }
const called = (part: number, opening: PartOpening, args = '{}'): AnswerEvent[] => [
  open(part, opening),
  delta(part, args),
  close(part, args)
]
const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** The chunks that a client is sent for these events. */
function chunks(events: readonly AnswerEvent[]): Json[] {
  const made: Json[] = []
  const encoder = codecs.gemini.encodeStream(answerHead)
  for (const event of events) encoder.push(event, (data) => void made.push(JSON.parse(data)))
  return made
}
/** The parts of the only candidate, in the stream and in the whole. */
function bothOf(...events: AnswerEvent[]): { streamed: Json[]; whole: Json[] } {
  const all = [...events, finish(), { type: 'end' } as const]
  const assembler = new Assembler()
  for (const event of all) assembler.see(event)
  return {
    streamed: chunks(all)
      .slice(0, -1)
      .flatMap(({ candidates }) => candidates[0].content.parts),
    whole: codecs.gemini.encodeAnswer(assembler.result(), answerHead)['candidates'] as never as Json[]
  }
}
const wholeOf = (...events: AnswerEvent[]): Json[] => bothOf(...events).whole[0].content.parts

t.test('a client of Gemini is sent each text at once, and the end of all with the last chunk', async (t) => {
  const tail = { modelVersion: 'public-model', responseId: answerHead.id }
  const likely = [{ token: 'x', logprob: -1, top: [{ token: 'y', logprob: -2 }] }]
  const logprobsResult = {
    chosenCandidates: [{ token: 'x', logProbability: -1 }],
    topCandidates: [{ candidates: [{ token: 'y', logProbability: -2 }] }]
  }
  const events: AnswerEvent[] = [
    { type: 'start', id: 'a' },
    open(0, { type: 'reasoning' }),
    delta(0, 'Hm'),
    close(0),
    open(1, { type: 'refusal' }, 1),
    delta(1, 'No'),
    close(1),
    open(2, { type: 'text' }),
    delta(2, 'a', { logprobs: likely }),
    { type: 'cite', part: 2, citation: { url: 'https://a.example', title: 'A' } },
    close(2),
    { type: 'usage', usage },
    finish(stop, 1),
    finish({ reason: 'other', word: 'odd' }),
    { type: 'end' }
  ]
  const part = (index: number, one: Json, more: Json = {}): Json => ({
    candidates: [{ index, content: { role: 'model', parts: [one] }, ...more }],
    ...tail
  })
  const last = { role: 'model', parts: [{ text: '' }] }
  const groundingMetadata = { groundingChunks: [{ web: { uri: 'https://a.example', title: 'A' } }] }
  t.strictSame(chunks(events), [
    part(0, { text: 'Hm', thought: true }),
    part(1, { text: 'No' }),
    part(0, { text: 'a' }, { logprobsResult }),
    {
      candidates: [
        { index: 0, content: last, finishReason: 'OTHER', finishMessage: 'odd', groundingMetadata },
        { index: 1, content: last, finishReason: 'SAFETY' }
      ],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2, totalTokenCount: 3 },
      ...tail
    }
  ])
  const assembler = new Assembler()
  for (const event of events) assembler.see(event)
  t.strictSame(JSON.parse(JSON.stringify(codecs.gemini.encodeAnswer(assembler.result(), answerHead))), {
    candidates: [
      {
        index: 0,
        content: { role: 'model', parts: [{ text: 'Hm', thought: true }, { text: 'a' }] },
        finishReason: 'OTHER',
        finishMessage: 'odd',
        groundingMetadata,
        logprobsResult
      },
      { index: 1, content: { role: 'model', parts: [{ text: 'No' }] }, finishReason: 'SAFETY' }
    ],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2, totalTokenCount: 3 },
    ...tail
  })
  t.match(chunks([finish({ reason: 'length' }, 1), finish(), { type: 'end' }])[0].candidates, [
    { index: 0, finishReason: 'STOP' },
    { index: 1, finishReason: 'MAX_TOKENS' }
  ])
})

t.test('the likeliness of a refusal is shown in the whole as in the stream', async (t) => {
  const logprobs = [{ token: 'No', logprob: -1, top: [] }]
  const events = [open(0, { type: 'refusal' }), delta(0, 'No', { logprobs }), close(0)]
  const shown = { chosenCandidates: [{ token: 'No', logProbability: -1 }], topCandidates: [{ candidates: [] }] }
  t.strictSame(chunks(events)[0].candidates[0].logprobsResult, shown)
  t.strictSame(bothOf(...events).whole[0].logprobsResult, shown)
})

t.test('calls are written to a client of Gemini in the order in which they began', async (t) => {
  const args = (id: string, value: Json = {}): Json => ({ functionCall: { id, name: 'f', args: value } })
  const mixed = [
    open(0, call('a')),
    open(1, call('b')),
    open(2, call('c'), 1),
    delta(1, '{"b":1}'),
    close(1, '{"b":1}'),
    close(2, '{}'),
    close(0, ' '),
    open(3, call('d')),
    close(3, '{}')
  ]
  t.strictSame(
    chunks(mixed).map(({ candidates: [{ index, content }] }) => [index, ...content.parts]),
    [
      [0, args('a')],
      [0, args('b', { b: 1 })],
      [1, args('c')],
      [0, args('d')]
    ]
  )
  t.strictSame(chunks(mixed.slice(0, 5)), [], 'they wait for the first')
  const broken = (text: string, reason: Json): Json[] =>
    chunks([open(0, call('a')), close(0, text), open(1, call('b')), close(1, '{}'), finish(reason), { type: 'end' }])
  for (const text of ['', '{"a"', '[]']) {
    for (const reason of ['length', 'content_filter', 'other'])
      t.strictSame(broken(text, { reason })[0].candidates[0].content.parts, [args('b')], 'what was cut is left out')
    if (text !== '') t.throws(() => broken(text, stop), { code: 'upstream_bad_response', message: /not a JSON object/ })
  }
  for (const [text, reason] of [
    ['{"a"', 'stop'],
    ['[]', 'tool_calls']
  ] as const)
    t.throws(
      () =>
        codecs.gemini.encodeAnswer(
          { id: '', candidates: [{ parts: [{ ...call('a'), input: text } as Json], finish: { reason } }], usage },
          answerHead
        ),
      {
        code: 'upstream_bad_response'
      }
    )
})

t.test('16 Mi characters of calls may wait for an earlier one', async (t) => {
  const encoder = codecs.gemini.encodeStream(answerHead)
  let [written, part] = [0, 0]
  const push = (...events: AnswerEvent[]): void => {
    for (const event of events) encoder.push(event, () => void written++)
  }
  const around = JSON.stringify({ functionCall: { id: 'a', name: 'f', args: { a: '' } } }).length
  const small = JSON.stringify({ functionCall: { id: 'a', name: 'f', args: {} } }).length
  const waits = (length: number): void =>
    push(open(++part, call('a')), close(part, JSON.stringify({ a: 'x'.repeat(length - around) })))
  push(open(0, call('a')))
  for (const length of [mostKept / 2, mostKept / 2 - small]) waits(length)
  t.equal(written, 0)
  push(close(0, '{}'), open(++part, call('a')))
  t.equal(written, 3, 'what is written waits no more')
  for (const length of [mostKept / 2, mostKept / 2]) waits(length)
  t.throws(() => waits(around), { code: 'answer_too_large', message: /put in order/ })
})

t.test('the thoughts of another model come back on the call that they led to', async (t) => {
  const events = [
    open(0, { type: 'reasoning' }),
    delta(0, 'Hm'),
    close(0, '', proof),
    open(1, { type: 'text' }),
    delta(1, 'a'),
    close(1, '', proof),
    open(2, { type: 'reasoning' }),
    close(2, '', proof),
    open(3, { type: 'reasoning' }),
    delta(3, 'x'),
    close(3),
    ...called(4, call('b')),
    ...called(5, call('c')),
    ...called(6, call('d', { family: 'gemini', kind: 'call', value: signature })),
    open(7, { type: 'reasoning' }),
    close(7)
  ]
  const own = base64('sluice1.anthropic.signature..s')
  const thoughts = [
    { type: 'reasoning', text: 'Hm', proof, first: true },
    { type: 'reasoning', text: '', proof }
  ]
  const made = (id: string, more: Json = {}): Json => ({ functionCall: { id, name: 'f', args: {} }, ...more })
  const led = base64(`sluice1.thoughts.${JSON.stringify(thoughts)}`)
  const { streamed } = bothOf(...events)
  t.strictSame(streamed, [
    { text: 'Hm', thought: true },
    { text: '', thought: true, thoughtSignature: own },
    { text: 'a' },
    { text: '', thought: true, thoughtSignature: own },
    { text: 'x', thought: true },
    made('b', { thoughtSignature: led }),
    made('c'),
    made('d', { thoughtSignature: signature })
  ])
  t.strictSame(wholeOf(...events), [
    { text: 'Hm', thought: true, thoughtSignature: own },
    { text: 'a' },
    { text: '', thought: true, thoughtSignature: own },
    { text: 'x', thought: true },
    made('b', { thoughtSignature: led }),
    made('c'),
    made('d', { thoughtSignature: signature })
  ])
})

t.test('pictures in data reach a client of Gemini, and those by an address do not', async (t) => {
  const media = (source: Json): PartOpening => ({ type: 'media', media: { type: 'image', source } })
  const events = [
    open(0, media({ kind: 'data', mimeType: 'image/png', data: 'AAAA' })),
    close(0),
    open(1, media({ kind: 'url', url: 'https://a.example' })),
    close(1),
    open(2, { type: 'text' }),
    close(2)
  ]
  const picture = [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }]
  t.strictSame(bothOf(...events).streamed, picture)
  t.strictSame(wholeOf(...events), picture)
  const answer: ModelAnswer = { id: '', candidates: [{ parts: [], finish: stop }], usage: undefined }
  t.match(codecs.gemini.encodeAnswer(answer, answerHead)['usageMetadata'], { promptTokenCount: 0, totalTokenCount: 0 })
})
