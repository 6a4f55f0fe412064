// A whole answer and the events that it is streamed as are the same thing, in the form between the protocols.
import t from 'tap'
import { shifted } from '../../core/protocols/canonical/answer.ts'
import type { AnswerEvent, ModelAnswer, TokenLogprob } from '../../core/protocols/canonical/answer.ts'
import { Assembler, tell } from '../../core/protocols/canonical/assemble.ts'
import { FinishReader, finishOf, isCut } from '../../core/protocols/canonical/finish.ts'
import { readTokens, writeTokens } from '../../core/protocols/canonical/logprobs.ts'
import { saidArguments } from '../../core/protocols/canonical/said-arguments.ts'

type Json = any

const likely: TokenLogprob[] = [{ token: 'a', logprob: -1, top: [] }]
const cited = { url: 'https://a.example', title: 'A' }
const proof = { family: 'gemini', kind: 'signature', value: 's' } as const
const media = { type: 'image', source: { kind: 'data', mimeType: 'image/png', data: 'AAAA' } } as const
const usage: Json = { input: 1 }
const stop = { reason: 'stop' } as const

const answer: ModelAnswer = {
  id: 'a',
  candidates: [
    {
      parts: [
        { type: 'text', text: 'said', logprobs: likely, citations: [cited], proof },
        { type: 'reasoning', text: 'Hm', proof },
        { type: 'reasoning', text: '' },
        { type: 'tool_call', id: '1', name: 'f', custom: false, input: '{}', proof },
        { type: 'tool_call', id: '2', name: 'f', namespace: 'n', custom: true, input: '' },
        media
      ],
      finish: stop
    },
    { parts: [{ type: 'refusal', text: 'No.', logprobs: likely }], finish: { reason: 'length' } }
  ],
  usage
}
const call = { type: 'tool_call', id: '1', name: 'f', custom: false } as const
const events: AnswerEvent[] = [
  { type: 'start', id: 'a' },
  { type: 'open', candidate: 0, part: 0, opening: { type: 'text' } },
  { type: 'delta', part: 0, text: 'said', logprobs: likely },
  { type: 'cite', part: 0, citation: cited },
  { type: 'close', part: 0, text: '', proof },
  { type: 'open', candidate: 0, part: 1, opening: { type: 'reasoning' } },
  { type: 'delta', part: 1, text: 'Hm' },
  { type: 'close', part: 1, text: '', proof },
  { type: 'open', candidate: 0, part: 2, opening: { type: 'reasoning' } },
  { type: 'close', part: 2, text: '' },
  { type: 'open', candidate: 0, part: 3, opening: { ...call, proof } },
  { type: 'delta', part: 3, text: '{}' },
  { type: 'close', part: 3, text: '{}' },
  { type: 'open', candidate: 0, part: 4, opening: { ...call, id: '2', namespace: 'n', custom: true } },
  { type: 'close', part: 4, text: '' },
  { type: 'open', candidate: 0, part: 5, opening: { type: 'media', media } },
  { type: 'close', part: 5, text: '' },
  { type: 'open', candidate: 1, part: 6, opening: { type: 'refusal' } },
  { type: 'delta', part: 6, text: 'No.', logprobs: likely },
  { type: 'close', part: 6, text: '' },
  { type: 'usage', usage },
  { type: 'finish', candidate: 0, finish: stop },
  { type: 'finish', candidate: 1, finish: { reason: 'length' } },
  { type: 'end' }
]

function toldOf(answer: ModelAnswer): AnswerEvent[] {
  const seen: AnswerEvent[] = []
  tell(answer, (event) => void seen.push(event))
  return seen
}

function assembled(events: readonly AnswerEvent[]): ModelAnswer {
  const assembler = new Assembler()
  for (const event of events) assembler.see(event)
  return assembler.result()
}

t.test('an answer is told by its events, and assembled from them', async (t) => {
  t.strictSame(toldOf(answer), events)
  t.strictSame(assembled(events), answer)
  const silent = {
    ...answer,
    candidates: [{ parts: [{ type: 'text', text: '', logprobs: likely } as const], finish: stop }]
  }
  t.match(toldOf({ ...silent, usage: undefined }), [
    { type: 'start' },
    { type: 'open' },
    { type: 'delta', text: '', logprobs: likely },
    { type: 'close' },
    { type: 'finish' },
    { type: 'end' }
  ])
  t.equal(toldOf({ ...silent, usage: undefined }).length, 6)
})

const finish = (candidate: number): AnswerEvent => ({ type: 'finish', candidate, finish: stop })
const open = (part: number, opening: Json, candidate = 0): AnswerEvent => ({ type: 'open', candidate, part, opening })

t.test('an answer is whole when each of its candidates has an end, in whichever order they come', async (t) => {
  const text = { type: 'text' }
  t.match(assembled([finish(1), finish(0), open(0, text, 1)]).candidates, [{ parts: [] }, { parts: [text] }])
  const ended: AnswerEvent[] = [{ type: 'finish', candidate: 1, finish: { reason: 'length' } }, finish(0)]
  t.match(assembled(ended).candidates, [{ finish: stop }, { finish: { reason: 'length' } }])
  for (const events of [[], [finish(1)], [finish(0), finish(2)], [finish(0), open(0, text, 1)]])
    t.throws(() => assembled(events), { code: 'upstream_bad_response', message: /before it was complete/ })
})

t.test('a part has of its events what parts of its kind may have', async (t) => {
  const all = (opening: Json): Json =>
    assembled([
      open(0, opening),
      { type: 'delta', part: 0, text: 'a', logprobs: likely },
      { type: 'delta', part: 0, text: 'b', logprobs: likely },
      { type: 'cite', part: 0, citation: cited },
      { type: 'close', part: 0, text: '', proof },
      finish(0)
    ]).candidates[0]!.parts[0]
  const logprobs = [...likely, ...likely]
  t.strictSame(all({ type: 'text' }), { type: 'text', text: 'ab', logprobs, citations: [cited], proof })
  t.strictSame(all({ type: 'refusal' }), { type: 'refusal', text: 'ab', logprobs })
  t.strictSame(all({ type: 'reasoning' }), { type: 'reasoning', text: 'ab', proof })
  t.strictSame(all(call), { ...call, input: 'ab' })
  t.strictSame(all({ type: 'media', media: { ...media } }), media)
})

t.test('a citation moves with its text, if it has a place there', async (t) => {
  t.strictSame(shifted({ ...cited, start: 1, end: 3 }, 4), { ...cited, start: 5, end: 7 })
  for (const [citation, by] of [
    [{ ...cited, start: 1, end: 3 }, 0],
    [cited, 4],
    [{ ...cited, start: 1 }, 4],
    [{ ...cited, end: 1 }, 4]
  ] as const)
    t.equal(shifted(citation, by), citation)
  t.strictSame(shifted({ ...cited, start: 1, end: 3 }, 1), { ...cited, start: 2, end: 4 })
})

t.test('a call without arguments has none when the answer was cut, and an empty object otherwise', async (t) => {
  const said = (...events: AnswerEvent[]): string[] => {
    const lines: string[] = []
    const emit = saidArguments((event) => void lines.push(`${event.type}${'text' in event ? ` ${event.text}` : ''}`))
    for (const event of events) emit(event)
    return lines
  }
  const closed = (part: number, text = ''): AnswerEvent => ({ type: 'close', part, text })
  const cut: AnswerEvent = { type: 'finish', candidate: 0, finish: { reason: 'length' } }
  t.same(said(open(0, call), closed(0), finish(0)), ['open', 'delta {}', 'close {}', 'finish'])
  t.same(said(open(0, call), closed(0, ' '), finish(0)), ['open', 'delta {}', 'close  {}', 'finish'])
  t.same(said(open(0, call), closed(0), cut), ['open', 'close ', 'finish'])
  t.same(said(open(0, call), open(1, call), closed(0), closed(1), cut), ['open', 'open', 'close ', 'close ', 'finish'])
  t.same(said(open(0, call), closed(0), open(1, call), closed(1), cut), [
    'open',
    'delta {}',
    'close {}',
    'open',
    'close ',
    'finish'
  ])
  t.same(said(open(0, call), closed(0), open(1, { type: 'text' }, 1), cut), ['open', 'open', 'close ', 'finish'])
  t.same(said(open(0, call), closed(0, '{"a":1}'), finish(0)), ['open', 'close {"a":1}', 'finish'])
  t.same(
    said(open(0, { ...call, custom: true }), closed(0), finish(0)),
    ['open', 'close ', 'finish'],
    'free text may be empty'
  )
  t.same(said(open(0, { type: 'text' }), closed(0), finish(0)), ['open', 'close ', 'finish'])
  t.same(said(open(0, call), closed(0, '{}'), closed(0), finish(0)), ['open', 'close {}', 'close ', 'finish'])
  t.same(said(open(0, call), closed(0), { type: 'finish', candidate: 1, finish: stop }, finish(0), finish(0)), [
    'open',
    'finish',
    'delta {}',
    'close {}',
    'finish',
    'finish'
  ])
})

t.test('the end of an answer fits its calls, and an unknown word is told of', async (t) => {
  const reader = new FinishReader([
    { vendor: 'v', source: 's', words: { STOP: 'stop', Weird: 'other', broken: 'failed' } } as Json
  ])
  t.strictSame(reader.read('stop'), stop)
  t.strictSame(reader.read('WEIRD'), { reason: 'other', word: 'WEIRD' })
  t.strictSame(reader.read('new word'), { reason: 'other', word: 'new_word', unknown: true })
  t.strictSame(reader.read(''), { reason: 'other', word: 'unknown', unknown: true })
  t.strictSame(reader.read('w'.repeat(65)), { reason: 'other', word: 'w'.repeat(64), unknown: true })
  t.throws(() => reader.read('broken', 'No.'), { code: 'upstream_bad_response', message: 'No.' })
  t.throws(() => reader.read('broken'), { message: 'The upstream gave its answer up (broken).' })
  for (const reason of ['stop', 'sequence'] as const) t.strictSame(finishOf({ reason }, true), { reason: 'tool_calls' })
  for (const reason of ['length', 'content_filter', 'pause', 'other', 'tool_calls'] as const)
    t.strictSame(finishOf({ reason }, true), { reason })
  t.strictSame(finishOf({ reason: 'tool_calls' }, false), stop)
  for (const reason of ['length', 'sequence'] as const) t.strictSame(finishOf({ reason }, false), { reason })
  t.strictSame(
    (['stop', 'sequence', 'length', 'tool_calls', 'content_filter', 'pause', 'other'] as const).filter((reason) =>
      isCut({ reason })
    ),
    ['length', 'content_filter', 'other']
  )
})

t.test('the likeliness of tokens is read and written whole, and is 0 where it is no number', async (t) => {
  const tokens = [
    { token: 'a', logprob: -1, bytes: [97, 'x'], top_logprobs: [{ token: 'b', logprob: -2, bytes: null }, 5] },
    { token: 5, logprob: 'high', bytes: 'none' }
  ]
  const read = readTokens(tokens)!
  t.strictSame(read, [
    { token: 'a', logprob: -1, bytes: [97], top: [{ token: 'b', logprob: -2, bytes: null }] },
    { token: '', logprob: 0, bytes: null, top: [] }
  ])
  t.strictSame(writeTokens(likely), [{ token: 'a', logprob: -1, bytes: null, top_logprobs: [] }])
  t.strictSame(writeTokens(read.slice(0, 1)), [
    { token: 'a', logprob: -1, bytes: [97], top_logprobs: [{ token: 'b', logprob: -2, bytes: null }] }
  ])
  for (const none of [undefined, [], [5], 'a']) t.equal(readTokens(none), undefined)
})
