// Usage reports become disjoint classes that add up to what the upstream said, and numbers that cannot be counts become
// none; where nothing is reported, what was seen is counted.
import fc from 'fast-check'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import { chargeableAt } from '../../plugins/usage-meter/conversion.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { Meter } from '../../plugins/usage-meter/meter.ts'
import { together, usageOf } from '../../plugins/usage-meter/turns.ts'

const chat = protocols['openai-chat']
const read = (usage: unknown, around: object = {}): unknown =>
  chat.readUsage(Message.event(JSON.stringify({ choices: [], usage, ...around })))
const none = { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 }

t.test('parts are taken out of their wholes', async (t) => {
  t.strictSame(read({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }), { ...none, input: 10, output: 5 })
  t.strictSame(
    read({
      prompt_tokens: 10500,
      completion_tokens: 320,
      total_tokens: 10820,
      prompt_tokens_details: { cached_tokens: 9000, cache_write_tokens: 500 },
      completion_tokens_details: { reasoning_tokens: 300 }
    }),
    { input: 1000, cached_input: 9000, cache_write: 500, output: 320, reasoning: 300 }
  )
  t.strictSame(
    read({
      prompt_tokens: 100,
      completion_tokens: 60,
      total_tokens: 160,
      prompt_tokens_details: { audio_tokens: 30, image_tokens: 20 },
      completion_tokens_details: { audio_tokens: 10 }
    }),
    { ...none, input: 50, output: 50, audio_input: 30, image_input: 20, audio_output: 10 }
  )
  t.strictSame(
    read({
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 45,
      completion_tokens_details: { reasoning_tokens: 30 }
    }),
    { ...none, input: 10, output: 35, reasoning: 30 },
    'reasoning that the total counts beside the completion is output too'
  )
})

t.test('explicit zero is zero, missing is missing', async (t) => {
  t.strictSame(read({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }), none)
  for (const usage of [undefined, null, {}, [], 'x', 5, { total_tokens: 7 }])
    t.equal(read(usage), undefined, JSON.stringify(usage))
  t.strictSame(
    read({ prompt_tokens: 9, total_tokens: 11 }),
    { ...none, input: 9, output: 2 },
    'one side follows from the total'
  )
  t.strictSame(read({ prompt_tokens: 9, completion_tokens: 0, prompt_tokens_details: null }), { ...none, input: 9 })
  for (const usage of [{ prompt_tokens: 9 }, { prompt_tokens: 9, completion_tokens: null }, { completion_tokens: 9 }]) {
    t.equal(read(usage), undefined, 'a side that nothing tells of')
  }
})

t.test('numbers that cannot be counts are called insane', async (t) => {
  for (const value of [-1, 0.5, '10', 2 ** 53, 2 ** 53 + 2, true, {}, [3]]) {
    t.equal(read({ prompt_tokens: value, completion_tokens: 1 }), 'insane', String(value))
    t.equal(
      read({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: value } }),
      'insane',
      String(value)
    )
  }
  t.equal(read({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 11 } }), 'insane')
  t.equal(
    read({ prompt_tokens: 10, completion_tokens: 1, completion_tokens_details: { reasoning_tokens: 2 } }),
    'insane'
  )
  t.equal(read({ prompt_tokens: 10, total_tokens: 3 }), 'insane', 'the missing side would be negative')
})

t.test('usage is found wherever vendors put it', async (t) => {
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const wanted = { ...none, input: 3, output: 4 }
  for (const body of [
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage },
    { usage },
    { choices: [], x_groq: { id: 'r', usage } },
    { choices: [{ index: 0, delta: {}, usage }] }
  ]) {
    t.strictSame(chat.readUsage(Message.event(JSON.stringify(body))), wanted)
    t.strictSame(chat.readUsage(Message.event(JSON.stringify(body, null, 1))), wanted, 'with white space')
  }
  const text = { choices: [{ index: 0, delta: { content: 'the word "usage":{"prompt_tokens":1}' } }], usage: null }
  t.equal(chat.readUsage(Message.event(JSON.stringify(text))), undefined, 'text that looks like usage is text')
})

t.test('whatever is reported, classes are never negative and add up to the total', async () => {
  const count = fc.oneof(fc.nat({ max: 100_000 }), fc.constantFrom(undefined, null, -1, 0.5, '7', 2 ** 53))
  const report = fc.record({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: fc.option(
      fc.record({ cached_tokens: count, cache_write_tokens: count, audio_tokens: count, image_tokens: count })
    ),
    completion_tokens_details: fc.option(fc.record({ reasoning_tokens: count, audio_tokens: count }))
  })
  fc.assert(
    fc.property(report, (usage) => {
      const classes = read(usage) as Record<string, number> | 'insane' | undefined
      if (classes === 'insane' || classes === undefined) return true
      const { reasoning, ...priced } = classes
      const sum = Object.values(priced).reduce((total, part) => total + part, 0)
      const [prompt, completion, total] = [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens].map(
        (value) => (typeof value === 'number' ? value : undefined)
      )
      const parts = prompt !== undefined && completion !== undefined ? prompt + completion : total!
      const whole = Math.max(parts, total ?? 0)
      return (
        Object.values(classes).every((part) => Number.isSafeInteger(part) && part >= 0) &&
        reasoning! <= priced['output']! + (priced['audio_output'] ?? 0) &&
        sum === whole
      )
    }),
    { numRuns: 5000 }
  )
})

/** A stream's meter: a prompt of 7 tokens, answers of at most 1000, and four bytes to a token. */
class StreamMeter extends Meter {
  readonly #most: number

  constructor(most = 1000) {
    super(chat, { fields: {} } as ConstructorParameters<typeof Meter>[1], 4, undefined)
    this.#most = most
  }

  total(complete: boolean): MeteredUsage {
    return this.read(complete, () => ({ input: () => 7, output: this.#most, sound: undefined }))
  }
}
const said = (content: string, more: object = {}): Message =>
  Message.event(JSON.stringify({ choices: [{ index: 0, delta: { content } }], ...more }))
const usage = (prompt_tokens: number, completion_tokens: number): object => ({
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
})

t.test('a stream without a report is counted by the text in its events', async (t) => {
  const counted = (messages: readonly Message[], most?: number): unknown => {
    const one = new StreamMeter(most)
    for (const message of messages) one.see(message)
    return one.total(true)
  }
  const estimated = (output: number): object => ({ usage: { ...none, input: 7, output }, source: 'estimated' })
  const end = Message.event('[DONE]')
  t.same(counted([said('x'.repeat(40)), said('x'.repeat(40)), said('x'.repeat(38)), end]), estimated(30), 'rounded up')
  t.same(counted(Array.from({ length: 9 }, () => said('x'))), estimated(9), 'an event is a token at least')
  t.same(counted([said('x'.repeat(400))], 99), estimated(99), 'within the limit')
  t.same(counted([end]), estimated(0))
  t.same(counted([said('x'.repeat(8000)), said('x'.repeat(40))], 5000), estimated(2010), 'large events are looked into')
  const wide = { a: 'y'.repeat(8000) }
  t.same(counted([said('x'.repeat(40), wide), said('x'.repeat(40))]), estimated(20), 'what is no text in them is none')
  const [usual, wider] = [said('x'.repeat(40)), said('x'.repeat(40), { a: 'y'.repeat(54) })]
  t.same(counted([usual, wider, usual, usual]), estimated(56), 'all around the text is as long as in most of them')
  t.same(counted([Message.event('no JSON at all'), Message.event('{"choices":[]}')]), estimated(2))
  t.same(
    counted([
      new Message('json', Buffer.from(JSON.stringify({ choices: [{ message: { content: 'x'.repeat(41) } }] })))
    ]),
    estimated(11)
  )
  const run = (text: string): Message => new Message('bytes', Buffer.from(text))
  t.same(counted([run('plain words '.repeat(100)), run('A'.repeat(1024))], 5000), estimated(300), 'no pictures')
  t.same(counted([run('A'.repeat(1023))], 5000), estimated(256), 'a short run may be a word')
})

t.test('of a report the last word counts, and no less than what was seen where a stream broke off', async (t) => {
  const one = new StreamMeter()
  one.see(said('', usage(10, 1)))
  for (let i = 0; i < 2; i++) one.see(said('x'.repeat(40)))
  t.same(one.total(true), { usage: { ...none, input: 10, output: 1 }, source: 'upstream' })
  t.same(one.total(false).source, 'partial')
  t.ok(one.total(false).usage.output >= 20, 'two events of ten tokens')
  one.see(said('', usage(0, 0)))
  t.same(one.total(true).usage, { ...none, input: 10, output: 1 }, 'zeros after counts correct nothing')
  one.see(said('', usage(12, 90)))
  t.same(one.total(false), { usage: { ...none, input: 12, output: 90 }, source: 'partial' })
  one.see(said('', usage(-1, 5)))
  t.equal(one.insane, true)
  t.equal(one.total(true).source, 'estimated')
  one.see(said('', usage(13, 5)))
  t.equal(one.insane, false)
  t.same(one.total(true).usage, { ...none, input: 13, output: 5 })

  const zero = new StreamMeter()
  zero.see(said('', usage(0, 0)))
  t.same(zero.total(true), { usage: none, source: 'upstream' }, 'a first zero is one')
  t.same(zero.total(false).usage, { ...none, input: 7, output: 1 }, 'not of what broke off')
  const whole = new StreamMeter()
  whole.see(
    new Message('json', Buffer.from(JSON.stringify({ choices: [{ message: { content: 'xyz' } }], ...usage(3, 0) })))
  )
  t.same(whole.total(false).usage, { ...none, input: 3 }, 'a whole answer says all at once')
})

t.test('a turn of a session has consumed what was reported, or seen', async (t) => {
  const turn = { begun: true, ended: true, reported: undefined, output: 5, input: { worst: 9, typical: 3 } }
  const of = (more: object): unknown => usageOf({ ...turn, ...more } as Parameters<typeof usageOf>[0])
  const seen = { ...none, input: 3, output: 5 }
  t.same(of({}), { usage: seen, source: 'estimated' })
  t.same(of({ ended: false }), { usage: seen, source: 'partial' })
  t.same(of({ reported: 'insane' }), { usage: seen, source: 'estimated' })
  t.same(of({ reported: { ...none, input: 1 } }), { usage: { ...none, input: 1 }, source: 'upstream' })
  t.equal(of({ output: 0 }), undefined)
  t.equal(of({ begun: false, reported: { ...none, input: 1 } }), undefined)
  const reported = { usage: { ...none, input: 1 }, source: 'upstream' } as const
  const partial = { usage: { ...none, output: 2 }, source: 'partial' } as const
  t.same(together(undefined, reported), reported)
  t.same(together(reported, partial), { usage: { ...none, input: 1, output: 2 }, source: 'partial' })
  t.same(together(partial, reported).source, 'partial', 'one that was not reported is enough')
})

t.test('what was counted in units without a price is charged in those that have one', async (t) => {
  const pieces = { searches: 2, seconds: 9, input: 50 }
  const at = (units: object, rates: object, source: 'measured' | 'partial' = 'measured'): unknown =>
    chargeableAt({ usage: { ...none, ...units }, source }, rates, () => pieces)
  const tokens = { input: 1n, output: 1n }
  const as = (units: object, source = 'estimated'): object => ({ usage: { ...none, ...units }, source })
  t.same(at({ image: 2 }, { image: 1n }), as({ image: 2 }, 'measured'), 'it has a price')
  t.same(at({ image: 2 }, { request: 1n }), as({ image: 2 }, 'measured'), 'the call has')
  t.same(at({ image: 2 }, {}), as({ image: 2 }, 'measured'), 'all is free')
  t.same(at({}, tokens), as({}, 'measured'), 'nothing was counted')
  t.same(at({ image: 2 }, tokens), as({ image: 2, image_output: 8320 }))
  t.same(at({ image: 1, image_output: 5 }, tokens), as({ image: 1, image_output: 4165 }), 'beside what was counted')
  t.same(at({ second: 3 }, tokens, 'partial'), as({ second: 3, audio_input: 30, output: 12 }, 'partial'))
  t.same(at({ character: 9 }, tokens), as({ character: 9, input: 3, audio_output: 12 }))
  t.same(at({ search: 1 }, tokens), as({ search: 1, input: 50 }))
  t.same(at({ input: 5 }, { search: 1n }), as({ input: 5, search: 2 }))
  t.same(at({ input: 5 }, { second: 1n }), as({ input: 5, second: 9 }))
  t.same(
    chargeableAt({ usage: { ...none, input: 5 }, source: 'upstream' }, { second: 1n }, () => ({
      ...pieces,
      seconds: 0
    })),
    as({ input: 5 }),
    'it brings no sound'
  )
})
