// What the meter makes of an answer by its messages alone, and what a usage becomes where its units have no price.
import fc from 'fast-check'
import t from 'tap'
import { Message, noUsage, pricedClasses } from '../../core/contract/contract.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { RequestBody } from '../../core/bodies/body.ts'
import type { PricedClass } from '../../core/money/classes.ts'
import type { Usage } from '../../core/money/usage.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { SoundLength } from '../../plugins/estimate.ts'
import { chargeableAt } from '../../plugins/usage-meter/conversion.ts'
import { Meter } from '../../plugins/usage-meter/meter.ts'
import { together, usageOf } from '../../plugins/usage-meter/turns.ts'

const body = RequestBody.json(Buffer.from('{}'))

interface Limits {
  bytesPerToken?: number
  most?: number
  sound?: SoundLength
  tools?: Partial<Usage>
  protocol?: keyof typeof protocols
}

/** A meter whose prompt is estimated as 1000 ÷ the bytes of a token. */
function meterOf({ bytesPerToken = 4, most = Infinity, sound, tools, protocol = 'openai-chat' }: Limits = {}): Meter {
  const bounds = () => ({ input: (bytes: number) => 1000 / bytes, output: most, sound })
  const tally = tools && { see() {}, read: () => tools }
  return new Meter(protocols[protocol], body, bytesPerToken, bounds, tally)
}

function event(payload: unknown): Message {
  const data = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload))
  return new Message('event', Buffer.concat([Buffer.from('data: '), data, Buffer.from('\n\n')]), data)
}

function words(content: string, usage?: object): Message {
  return event({ id: 'c', choices: [{ index: 0, delta: { content } }], ...(usage && { usage }) })
}

function report(prompt: number, completion: number): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

function whole(content: string, usage?: object): Message {
  const message = { role: 'assistant', content }
  return new Message('json', Buffer.from(JSON.stringify({ choices: [{ index: 0, message }], ...(usage && { usage }) })))
}

/** A run of a body that is too large to be held, of which so much is known besides. */
function run(bytes: Buffer, outline: object = {}): Message {
  const message = new Message('bytes', bytes)
  message.body = { outline: Buffer.from(JSON.stringify(outline)) }
  return message
}

function read(messages: readonly Message[], complete: boolean, limits?: Limits): MeteredUsage {
  const meter = meterOf(limits)
  for (const message of messages) meter.see(message)
  return meter.read(complete)
}

const usage = (more: Partial<Usage>): Usage => ({ ...noUsage, ...more })

t.test('an answer that nobody counts is estimated by its text, with a token for each event at least', (t) => {
  const lengths = fc.array(fc.oneof(fc.nat(3), fc.nat(60), fc.integer({ min: 4000, max: 6000 })), { maxLength: 20 })
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 9 }), fc.nat(300), fc.boolean(), (all, size, most, complete) => {
        // The first has text, so that its envelope is known.
        const texts = [1, ...all]
        const bytes = texts.reduce((sum, length) => sum + length, 0)
        const messages = [...texts.map((length) => words('x'.repeat(length))), event('[DONE]')]
        const metered = read(messages, complete, { bytesPerToken: size, most })
        return (
          metered.source === (complete ? 'estimated' : 'partial') &&
          metered.usage.input === 1000 / size &&
          metered.usage.output === Math.min(most, Math.max(texts.length, Math.ceil(bytes / size)))
        )
      }),
      { numRuns: 300 }
    )
  )
  t.end()
})

t.test('the envelope of events is the usual one of those with text, and without text all of an event is', (t) => {
  const long = (content: string): Message => event({ padding: 'p'.repeat(200), choices: [{ delta: { content } }] })
  const short = (content: string): Message => event({ choices: [{ delta: { content } }] })
  const { length } = short('').data
  const silent = event({ choices: [] })
  // Samples are the first, the second and the fourth event.
  const output = (...messages: Message[]): number => read(messages, true, { bytesPerToken: 1 }).usage.output
  t.equal(output(short('abcd')), 4)
  t.equal(output(long('ab'), short('a'), short(''), short('b')), 2 + 200 + 2 + '"padding":"",'.length)
  t.equal(output(silent, silent, silent), 3, 'one for each')
  t.equal(output(silent, short('abc')), Math.max(2, silent.data.length + length + 3 - 2 * length))
  t.end()
})

t.test('events that are no longer than an end marker are none, and a whole answer counts by its text', (t) => {
  const output = (messages: Message[], more: Limits = {}): number => read(messages, true, more).usage.output
  t.equal(output([event('[DONE]'), event('{}')]), 0)
  t.equal(output([event('{"a":1}')]), 1)
  t.equal(output([whole('nine word')]), 3)
  t.equal(output([whole('nine word')], { most: 2 }), 2)
  t.equal(output([whole('')]), 0)
  t.equal(output([]), 0)
  t.end()
})

t.test('a report counts as the upstream gave it, the last one, unless a stream that broke off had more', (t) => {
  t.same(read([words('a'), words('', report(7, 3))], true), {
    usage: usage({ input: 7, output: 3 }),
    source: 'upstream'
  })
  t.same(read([words('a', report(7, 1)), words('b', report(7, 2))], true).usage, usage({ input: 7, output: 2 }))
  t.same(
    read([words('a', report(7, 1)), event({ choices: [], usage: report(0, 0) })], true).usage.output,
    1,
    'a postscript'
  )
  t.same(
    read([whole('word', report(0, 0))], true),
    { usage: noUsage, source: 'upstream' },
    'nothing, and nothing before'
  )
  // Three events without a report, of a token or more each.
  const broken = (usage: object, ...rest: string[]): MeteredUsage =>
    read([words('a', usage), ...rest.map((text) => words(text))], false)
  t.same(broken(report(7, 2), 'b', 'c'), { usage: usage({ input: 7, output: 3 }), source: 'partial' })
  t.same(broken(report(7, 9), 'b', 'c').usage, usage({ input: 7, output: 9 }))
  t.same(
    broken(report(0, 2), 'b', 'c').usage,
    usage({ input: 250, output: 3 }),
    'a prompt that is not told is estimated'
  )
  const capped = read([words('a', report(7, 2)), ...['b', 'c', 'd'].map((text) => words(text))], false, { most: 3 })
  t.same(capped.usage, usage({ input: 7, output: 3 }), 'no more than the limits let through')
  const thinking = { ...report(7, 2), completion_tokens_details: { reasoning_tokens: 2 } }
  t.equal(broken(thinking, 'b', 'c').usage.reasoning, 2)
  t.same(
    read([whole('word', report(7, 3))], false),
    { usage: usage({ input: 7, output: 3 }), source: 'upstream' },
    'whole'
  )
  t.end()
})

t.test('a report that cannot be true is an estimate, until another one can', (t) => {
  const wrong = { ...report(7, 2), completion_tokens: -2 }
  const meter = meterOf()
  meter.see(words('a', wrong))
  t.equal(meter.insane, true)
  t.match(meter.read(true), { source: 'estimated', usage: { input: 250, output: 1 } })
  meter.see(words('b', report(7, 2)))
  t.equal(meter.insane, false)
  t.match(meter.read(true), { source: 'upstream', usage: { input: 7, output: 2 } })
  meter.see(words('c', wrong))
  t.match(meter.read(true), { source: 'estimated', usage: { output: 3 } })
  t.end()
})

t.test('calls of hosted tools are added to whatever was counted, and sound is charged by its length', (t) => {
  t.same(read([whole('word', report(7, 3))], true, { tools: { web_search: 2 } }), {
    usage: { ...usage({ input: 7, output: 3 }), web_search: 2 },
    source: 'upstream'
  })
  for (const [measured, complete, source] of [
    [true, true, 'measured'],
    [false, true, 'estimated'],
    [true, false, 'partial']
  ] as const)
    t.same(read([], complete, { sound: { second: 9, measured } }), { usage: { ...noUsage, second: 9 }, source })
  t.end()
})

t.test('what the gateway can count by itself is charged as measured, beside what is reported', (t) => {
  const text = RequestBody.json(Buffer.from('{"input":"five!"}'))
  const bounds = () => ({ input: () => 1, output: 1, sound: undefined })
  const meter = new Meter(protocols['openai-speech'], text, 4, bounds, undefined)
  meter.see(new Message('bytes', Buffer.alloc(2000)))
  t.same(meter.read(true), { usage: { ...noUsage, character: 5 }, source: 'measured' })
  t.same(meter.read(false), { usage: { ...noUsage, character: 5 }, source: 'partial' })
  t.end()
})

t.test('an answer too large to be held is read from what is known of it, or counted by its text', (t) => {
  const text = Buffer.from(`{"choices":[{"message":{"content":"${'word '.repeat(400)}`)
  const output = (...runs: Buffer[]): number =>
    read(
      runs.map((bytes) => run(bytes)),
      true
    ).usage.output
  t.same(read([run(text, { usage: report(7, 3) })], true), {
    usage: usage({ input: 7, output: 3 }),
    source: 'upstream'
  })
  t.equal(output(text), Math.ceil(text.length / 4))
  t.equal(output(text, text), Math.ceil(text.length / 2))
  const picture = (length: number): Buffer => Buffer.alloc(length, 'Ab9+/=_-')
  t.equal(output(picture(1024)), 0, 'a picture has no text')
  t.equal(output(picture(1023)), 256, 'what is short may be anything')
  t.equal(output(Buffer.concat([Buffer.from('{"b64":"'), picture(4000), Buffer.from('"}')])), 0, 'by its middle')
  for (const at of [2000 - 256, 2000 + 255]) {
    const odd = picture(4000)
    odd.write(' ', at)
    t.equal(output(odd), 1000, `a blank at ${at}`)
    odd.write('A', at)
    odd.write(' ', at < 2000 ? at - 1 : at + 1)
    t.equal(output(odd), 0, 'outside of the middle')
  }
  t.equal(output(text, picture(4000)), Math.ceil(text.length / 4))
  t.end()
})

/** Units without a price become those that have one: the numbers of docs, one by one. */
t.test('units without a price become units that have one, as an estimate', (t) => {
  const none = { searches: 0, seconds: 0, input: 0 }
  const of = (
    units: Partial<Usage>,
    priced: PricedClass[],
    pieces = none,
    source: MeteredUsage['source'] = 'upstream'
  ) => {
    const rates = Object.fromEntries(priced.map((name) => [name, 1n]))
    return chargeableAt({ usage: usage(units), source }, rates, () => pieces)
  }
  const same = (units: Partial<Usage>, priced: PricedClass[], why: string): void => {
    const metered: MeteredUsage = { usage: usage(units), source: 'upstream' }
    const asked: unknown[] = []
    const rates = Object.fromEntries(priced.map((name) => [name, 1n]))
    t.equal(
      chargeableAt(metered, rates, () => (asked.push(0), none)),
      metered,
      why
    )
    t.same(asked, [], 'the request is not looked at')
  }
  same({ input: 5, output: 1 }, ['output'], 'one of them has a price')
  same({ input: 5 }, ['request'], 'only the call is charged')
  same({ input: 5 }, [], 'nothing is')
  same({}, ['output'], 'nothing was used')
  same({ input: 0, output: 0 }, ['output', 'request'], 'nothing was used')
  const all = { searches: 3, seconds: 4, input: 77 }
  t.same(of({ character: 6 }, ['input']), {
    usage: usage({ character: 6, input: 2, audio_output: 8 }),
    source: 'estimated'
  })
  t.same(
    of({ character: 7, input: 1, audio_output: 1 }, ['image']).usage,
    usage({ character: 7, input: 3, audio_output: 11 })
  )
  t.same(of({ image: 2 }, ['image_output']).usage, usage({ image: 2, image_output: 8320 }))
  t.same(of({ second: 3 }, ['audio_input']).usage, usage({ second: 3, audio_input: 30, output: 12 }))
  t.same(of({ search: 1 }, ['input'], all).usage, usage({ search: 1, input: 77 }), 'a search costs its text')
  t.same(of({ input: 5 }, ['search'], all).usage, usage({ input: 5, search: 3 }))
  t.same(of({ input: 5 }, ['second'], all).usage, usage({ input: 5, second: 4 }))
  t.same(of({ input: 5 }, ['second'], none).usage, usage({ input: 5 }), 'no second of sound')
  t.same(of({ input: 5 }, ['image', 'request'], all).usage, usage({ input: 5 }), 'nothing can be made of them')
  for (const source of ['upstream', 'measured', 'estimated'] as const)
    t.equal(of({ image: 1 }, ['input'], none, source).source, 'estimated')
  t.equal(of({ image: 1 }, ['input'], none, 'partial').source, 'partial')
  for (const name of pricedClasses) {
    same({ [name]: 1 }, [name], `${name} has a price`)
    const other = name === 'character' ? 'image' : 'character'
    if (name !== 'request') t.not(of({ [name]: 1 }, [other], all).source, 'upstream', `${name} has none`)
  }
  t.end()
})

t.test(
  'a turn costs what was reported, or what was said of it; together turns are no better known than the worst',
  (t) => {
    const turn = {
      begun: true,
      ended: true,
      reported: usage({ input: 1, output: 2 }),
      output: 9,
      input: { typical: 4 }
    }
    const of = (more: object): unknown => usageOf({ ...turn, ...more } as never)
    t.same(of({}), { usage: turn.reported, source: 'upstream' })
    t.equal(of({ begun: false }), undefined)
    const said = usage({ input: 4, output: 9 })
    t.same(of({ reported: 'insane' }), { usage: said, source: 'estimated' })
    t.same(of({ reported: undefined }), { usage: said, source: 'estimated' })
    t.same(of({ reported: undefined, ended: false }), { usage: said, source: 'partial' })
    t.equal(of({ reported: undefined, output: 0 }), undefined)
    const metered = (source: MeteredUsage['source']): MeteredUsage => ({ usage: usage({ input: 1 }), source })
    const first = metered('upstream')
    t.equal(together(undefined, first), first)
    t.same(together(first, metered('upstream')), { usage: usage({ input: 2 }), source: 'upstream' })
    t.equal(together(first, metered('partial')).source, 'partial')
    t.equal(together(metered('partial'), first).source, 'partial')
    t.end()
  }
)
