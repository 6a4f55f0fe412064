// What translation keeps and reads of one answer has bounds: up to them all passes, and one more is refused.
import t from 'tap'
import type { AnswerEvent, PartOpening } from '../../core/protocols/canonical/answer.ts'
import { withinBounds } from '../../core/protocols/canonical/bounds.ts'
import { wholeCharacters } from '../../core/protocols/canonical/characters.ts'
import { mostKept } from '../../core/protocols/canonical/codec.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { Parts } from '../../core/protocols/canonical/parts.ts'

const mebi = 1024 * 1024
const text: PartOpening = { type: 'text' }
const call: PartOpening = { type: 'tool_call', id: 'ab', name: 'xyz', custom: false }
const tooLarge = { code: 'answer_too_large' }
const drop = (): void => {}

/** A stream whose parts are opened with these, and what receives their deltas. */
function bounded(...openings: PartOpening[]): { delta(text: string, part?: number): void; close(part: number): void } {
  const emit = withinBounds(drop)
  openings.forEach((opening, part) => void emit({ type: 'open', candidate: 0, part, opening }))
  return {
    delta: (said, part = 0) => emit({ type: 'delta', part, text: said }),
    close: (part) => emit({ type: 'close', part, text: '' })
  }
}

t.test('a delta has 3 Mi characters at most, and a call 2 Mi, in however many deltas', async (t) => {
  const longest = 'a'.repeat(3 * mebi)
  bounded(text).delta(longest)
  t.throws(() => bounded(text).delta(`${longest}a`), tooLarge)
  const half = 'a'.repeat(mebi)
  const stream = bounded(call, call, text)
  for (const part of [0, 0, 1, 1, 2, 2, 2]) stream.delta(half, part)
  t.throws(() => stream.delta('a', 1), tooLarge)
  t.throws(() => bounded(call).delta(`${half}${half}a`), tooLarge)
  const ended = bounded(call)
  ended.delta(`${half}${half}`)
  ended.close(0)
  ended.delta('a')
  t.pass('what has ended is not counted')
})

t.test('a call has 50 000 values at most, besides those in its first 64 Ki characters', async (t) => {
  const free = ','.repeat(64 * 1024)
  const most = ','.repeat(50_000)
  for (const values of [most, '['.repeat(50_000), '{'.repeat(50_000), `${most}:"a"]}`]) {
    const stream = bounded(call)
    stream.delta(free)
    stream.delta(values)
    t.throws(() => stream.delta(',a'), tooLarge)
  }
  for (const [first, ...others] of [[`${most},`], [`${most},`], [',', most]] as const) {
    const stream = bounded(call)
    stream.delta(free)
    t.throws(() => [first, ...others].forEach((values) => void stream.delta(values)), tooLarge, 'each time it is asked')
  }
  const said = bounded(text, call)
  for (let at = 0; at < 3; at++) said.delta(free)
  t.pass('text may have any')
})

/** Parts that may keep so many characters more. */
function partsWith(left: number): Parts {
  const parts = new Parts()
  parts.count(mostKept - left)
  return parts
}

t.test('an answer has 10 000 parts at most', async (t) => {
  const parts = new Parts()
  for (let at = 0; at < 10_000; at++) parts.open(0, text, drop)
  t.throws(() => parts.open(0, text, drop), { ...tooLarge, message: /too many parts/ })
})

t.test('16 Mi characters are kept of an answer: of calls and thoughts, and of what is cited', async (t) => {
  t.equal(mostKept, 16 * mebi)
  const fits = (left: number, use: (parts: Parts) => void): void => {
    use(partsWith(left))
    t.throws(() => use(partsWith(left - 1)), tooLarge)
  }
  const proof = { family: 'gemini', kind: 'call', value: '1234567' } as const
  fits(5, (parts) => void parts.open(0, call, drop))
  fits(12, (parts) => void parts.open(0, { ...call, proof }, drop))
  fits(8, (parts) => parts.delta(parts.open(0, call, drop), 'abc', drop))
  fits(3, (parts) => parts.delta(parts.open(0, { type: 'reasoning' }, drop), 'abc', drop))
  fits(36, (parts) => parts.cite(parts.open(0, text, drop), { url: 'abc', title: 'd' }, drop))
  const full = partsWith(0)
  for (const type of ['text', 'refusal'] as const) full.delta(full.open(0, { type }, drop), 'abc', drop)
  const freed = (proven: number | undefined, left: number): void => {
    const parts = partsWith(8)
    const open = parts.open(0, call, drop)
    parts.delta(open, 'abc', drop)
    parts.close(open, drop, proven === undefined ? undefined : { ...proof, value: 'a'.repeat(proven) })
    parts.count(left)
    t.throws(() => parts.count(1), tooLarge)
    t.equal(open.input, '', 'the input of a call that has ended is released')
    parts.close(open, drop)
    t.throws(() => parts.count(1), tooLarge, 'a part ends once')
  }
  freed(undefined, 3)
  freed(2, 1)
})

t.test('a part says what it is opened, told and closed with, and nothing that it has not', async (t) => {
  const events: AnswerEvent[] = []
  const emit = (event: AnswerEvent): void => void events.push(event)
  const parts = new Parts()
  const [first, second] = [parts.open(1, text, emit), parts.open(0, call, emit)]
  parts.delta(first, '', emit)
  parts.delta(first, 'a', emit)
  parts.delta(first, '', emit, [])
  parts.delta(second, '{}', emit)
  parts.closeAll(emit)
  parts.closeAll(emit)
  t.notOk(parts.isOpen(first))
  t.throws(() => parts.delta(first, 'a', emit), { code: 'upstream_bad_response' })
  t.strictSame(events, [
    { type: 'open', candidate: 1, part: 0, opening: text },
    { type: 'open', candidate: 0, part: 1, opening: call },
    { type: 'delta', part: 0, text: 'a' },
    { type: 'delta', part: 0, text: '', logprobs: [] },
    { type: 'delta', part: 1, text: '{}' },
    { type: 'close', part: 0, text: '' },
    { type: 'close', part: 1, text: '{}' }
  ])
})

t.test('halves of a character wait for each other, and whole ones for nothing', async (t) => {
  const events: AnswerEvent[] = []
  const emit = wholeCharacters((event) => void events.push(event))
  const [one, other] = ['\ud83d', '\ude00']
  const whole: AnswerEvent = { type: 'delta', part: 0, text: 'a' }
  emit(whole)
  t.equal(events[0], whole, 'it is passed on as it is')
  for (const said of [one, `${other}b${one}`, other]) emit({ type: 'delta', part: 0, text: said })
  emit({ type: 'delta', part: 1, text: one })
  emit({ type: 'delta', part: 1, text: one, logprobs: [] })
  for (const part of [1, 1, 0]) emit({ type: 'close', part, text: '' })
  t.strictSame(events.slice(1), [
    { type: 'delta', part: 0, text: `${one}${other}b` },
    { type: 'delta', part: 0, text: `${one}${other}` },
    { type: 'delta', part: 1, text: one, logprobs: [] },
    { type: 'delta', part: 1, text: one },
    { type: 'close', part: 1, text: '' },
    { type: 'close', part: 1, text: '' },
    { type: 'close', part: 0, text: '' }
  ])
})

t.test('at most 64 names are told of what was left out, each of 80 characters at most', async (t) => {
  const losses = new Losses('messages', { hint: 'a, b' })
  losses.see('hint')
  losses.drop('hint')
  for (let at = 0; at < 70; at++) losses.see('unknown', `${'m'.repeat(78)}${at}[0]x`)
  losses.see('seed')
  losses.drop('unknown')
  losses.drop('seed')
  t.equal(losses.dropped.length, 64)
  t.strictSame(losses.dropped.slice(0, 2), ['a??b', `${'m'.repeat(78)}0?`])
  t.strictSame(losses.again().dropped, [])
  const few = losses.again()
  few.drop('seed')
  t.strictSame(few.dropped, ['seed'], 'what no member asks for has the name of its feature')
  const named = new Losses('messages', {})
  named.see('hint', 'a[0].b[12].$c-d e')
  named.see('hint', 'a[1].b[2].$c-d e')
  named.settle({ hint: 'dropped' } as never)
  t.strictSame(named.dropped, ['a.b.$c-d?e'])
})
