// What the meter makes of an answer by its messages alone, and what a usage becomes where its units have no price.
import fc from 'fast-check'
import t from 'tap'
import { Message, noUsage, pricedClasses } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import { goingOn, reservation, usage as usageSlot } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { BodyEdit, RequestBody } from '../../core/bodies/body.ts'
import type { PricedClass } from '../../core/money/classes.ts'
import type { Rates } from '../../core/money/price.ts'
import type { Usage } from '../../core/money/usage.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import { chatTools } from '../../core/protocols/counting/hosted-tools.ts'
import { protocols } from '../../core/protocols/index.ts'
import { heldInput, offeredTools } from '../../plugins/estimate.ts'
import type { SoundLength } from '../../plugins/estimate.ts'
import usageMeter from '../../plugins/usage-meter/index.ts'
import { chargeableAt } from '../../plugins/usage-meter/conversion.ts'
import { Meter } from '../../plugins/usage-meter/meter.ts'
import type { Bounds } from '../../plugins/usage-meter/meter.ts'
import { together, usageOf } from '../../plugins/usage-meter/turns.ts'
import { TestMetrics } from '../kit/metrics.ts'

const body = RequestBody.json(Buffer.from('{}'))

interface Limits {
  bytesPerToken?: number
  most?: number
  sound?: SoundLength
  tools?: Partial<Usage>
  protocol?: keyof typeof protocols
}

/** A meter whose prompt is estimated as 1000 ÷ the bytes of a token. */
class Bounded extends Meter {
  readonly #bounds: Bounds

  constructor({ bytesPerToken = 4, most = Infinity, sound, tools, protocol = 'openai-chat' }: Limits = {}, of = body) {
    super(protocols[protocol], of, bytesPerToken, tools && { see() {}, read: () => tools })
    this.#bounds = { input: (bytes) => 1000 / bytes, output: most, sound }
  }

  total(complete: boolean): MeteredUsage {
    return this.read(complete, () => this.#bounds)
  }
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
  const meter = new Bounded(limits)
  for (const message of messages) meter.see(message)
  return meter.total(complete)
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

/** What a model has written for a call of a tool. */
const written = (length: number): object => ({
  a_member_with_a_name: 'x'.repeat(length),
  url: 'https://example.com/?q=a',
  id: 'id',
  type: ['type', { data: 'd', status: 12_345, inner: { deeper: { deepest: [true, null, 'é'] } } }]
})

t.test('arguments of a call count as they are written, names and numbers too, wherever they are objects', (t) => {
  const calls: { [protocol in keyof typeof protocols]?: (args: object) => object } = {
    gemini: (args) => ({ candidates: [{ content: { parts: [{ functionCall: { name: 'f', args } }] } }] }),
    anthropic: (input) => ({ content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input }] }),
    bedrock: (input) => ({
      output: { message: { content: [{ toolUse: { toolUseId: 'tooluse_1', name: 'f', input } }] } }
    }),
    'openai-chat': (args) => ({
      choices: [{ message: { tool_calls: [{ id: 'c', function: { name: 'f', arguments: args } }] } }]
    })
  }
  const bytesOf = (args: object): number => Buffer.byteLength(JSON.stringify(args)) + 'f'.length
  for (const [protocol, call] of Object.entries(calls) as [keyof typeof protocols, (args: object) => object][]) {
    const limits = { bytesPerToken: 1, protocol }
    const args = written(100)
    const message = new Message('json', Buffer.from(JSON.stringify(call(args))))
    t.equal(read([message], true, limits).usage.output, bytesOf(args), protocol)
    const none = new Message('json', Buffer.from(JSON.stringify(call({}))))
    t.equal(read([none], true, limits).usage.output, 1, `${protocol}: no arguments`)
  }
  for (const name of ['action', 'actions']) {
    const acts = { type: 'drag', path: [{ x: 1042, y: 386 }], button: 'left' }
    const output = [{ type: 'computer_call', id: 'cu_1', call_id: 'c', status: 'completed', [name]: acts }]
    const message = new Message('json', Buffer.from(JSON.stringify({ object: 'response', output })))
    const { usage } = read([message], true, { bytesPerToken: 1, protocol: 'openai-responses' })
    t.equal(usage.output, JSON.stringify(acts).length, name)
  }
  // Events of all sizes: counted by their length, parsed, and read near their top only.
  for (const length of [10, 5000, 70_000, 200_000]) {
    const args = written(length)
    const events = [event(calls.gemini!(args)), event(calls.gemini!(args))]
    t.equal(read(events, false, { bytesPerToken: 1, protocol: 'gemini' }).usage.output, 2 * bytesOf(args), `${length}`)
  }
  t.end()
})

t.test('an event of very many values says what it says near its top: its text, and the usage', (t) => {
  const list = (value: unknown): unknown[] => Array<unknown>(60_000).fill(value)
  const content = 'text '.repeat(8000)
  const choice = { index: 0, delta: { content }, logprobs: { content: list({ token: 'a', top_logprobs: [1, 2] }) } }
  t.equal(read([event({ choices: [choice] })], true).usage.output, 10_000)
  const usage = { input_tokens: 7, input_tokens_details: { cached_tokens: 3 }, output_tokens: 5, total_tokens: 12 }
  const part = { type: 'output_text', text: content, logprobs: list({ token: 'a' }) }
  const response = { object: 'response', output: [{ type: 'message', content: [part] }], usage }
  t.match(read([event({ type: 'response.completed', response })], true, { protocol: 'openai-responses' }), {
    usage: { input: 4, cached_input: 3, output: 5 },
    source: 'upstream'
  })
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
  t.equal(read([words('a', report(1, 1))], false).usage.input, 1, 'a prompt of one token is counted')
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
  const meter = new Bounded()
  meter.see(words('a', wrong))
  t.equal(meter.insane, true)
  t.match(meter.total(true), { source: 'estimated', usage: { input: 250, output: 1 } })
  meter.see(words('b', report(7, 2)))
  t.equal(meter.insane, false)
  t.match(meter.total(true), { source: 'upstream', usage: { input: 7, output: 2 } })
  meter.see(words('c', wrong))
  t.match(meter.total(true), { source: 'estimated', usage: { output: 3 } })
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
  const meter = new Bounded({ most: 1, protocol: 'openai-speech' }, text)
  meter.see(new Message('bytes', Buffer.alloc(2000)))
  t.same(meter.total(true), { usage: { ...noUsage, character: 5 }, source: 'measured' })
  t.same(meter.total(false), { usage: { ...noUsage, character: 5 }, source: 'partial' })
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

/** An exchange with what the plugin asks of it. */
class Running {
  readonly model = 'demo'
  readonly receivedAt = 1000
  readonly attempts: Attempted[] = []
  readonly ends: (() => void)[] = []
  readonly streaming: boolean
  readonly body: RequestBody
  readonly request: object
  readonly #slots = new Map<unknown, unknown>()

  constructor(metering: Partial<Metering> | undefined, sent: object = {}, streaming = false) {
    this.body = RequestBody.json(Buffer.from(JSON.stringify(sent)))
    this.streaming = streaming
    this.request = { operation: { metering: metering && { outputLimits: [], ...metering } } }
  }

  find(slot: unknown): any {
    return this.#slots.get(slot)
  }

  set(slot: unknown, value: unknown): void {
    this.#slots.set(slot, value)
  }

  defer(end: () => void): void {
    this.ends.push(end)
  }
}

interface Attempted {
  channel: object
  model: string
  protocol: object
  translated?: boolean
  usage?: MeteredUsage
}

const attempt = (more: Partial<Attempted> = {}): Attempted => ({
  channel: { name: 'a' },
  model: 'demo',
  protocol: protocols['openai-chat'],
  ...more
})

type Observing = { observe(message: Message): void; end(complete: boolean): void }
type Mapping = {
  takes: string
  map(message: Message, emit: (message: Message) => void): void
  end(complete: boolean): void
}

async function plugin({ size = 4, model }: { size?: number; model?: object } = {}) {
  const metrics = new TestMetrics()
  const catalogue = { models: new Map(model ? [['demo', model]] : []) }
  const hooks = await usageMeter.setup({ bytes_per_token: size }, { catalogue, log: {}, metrics } as never)
  const counts = (): number[] =>
    ['usage_estimated_total', 'usage_rejected_total'].map((name) => metrics.value(name, { channel: 'a' }))
  /** What an exchange has consumed whose answer is one message. */
  const metered = (running: Running, message?: Message, complete = true, own = attempt()): MeteredUsage | undefined => {
    const stage = hooks.onResponse!(running as never, { attempt: own, streaming: false } as never) as Observing
    if (message) stage.observe(message)
    stage.end(complete)
    return own.usage
  }
  return { hooks, counts, metered }
}

const chat = { outputLimits: ['max_tokens'] }
const priced = (rates: Rates, more: object = {}): object => ({
  prices: [{ from: 0, price: { version: 'v', perMillion: rates } }],
  ...more
})

t.test('its option is the bytes of a token, from 1 to 16', (t) => {
  const check = checkerOf(usageMeter.options, usageMeter.required)
  t.same(check({}).value, { bytes_per_token: 4 })
  for (const size of [1, 16]) t.same(check({ bytes_per_token: size }).faults, [])
  for (const size of [0.9, 16.1]) t.match(check({ bytes_per_token: size }).faults, [{ pointer: '/bytes_per_token' }])
  t.end()
})

t.test('the usage of the last attempt is that of the exchange, where there is one', async (t) => {
  const { hooks } = await plugin()
  const metered: MeteredUsage = { usage: noUsage, source: 'upstream' }
  for (const [attempts, expected] of [
    [[attempt(), attempt({ usage: metered })], metered],
    [[attempt({ usage: metered }), attempt()], undefined],
    [[], undefined]
  ] as const) {
    const running = new Running(chat)
    await hooks.onRequest!(running as never)
    running.attempts.push(...attempts)
    for (const end of running.ends) end()
    t.equal(running.find(usageSlot), expected)
  }
  const free = new Running(undefined)
  await hooks.onRequest!(free as never)
  t.equal(free.ends.length, 0)
})

t.test('an upstream is asked for the usage of a stream, unless its client did, or it may not be', async (t) => {
  const { hooks } = await plugin()
  const added = (running: Running, more: object = {}): unknown => {
    const edit = new BodyEdit(running.body)
    hooks.onAttempt!(running as never, { ...attempt(), body: edit, mayAdd: () => true, ...more } as never)
    return edit.json('stream_options')
  }
  t.same(added(new Running(chat, {}, true)), { include_usage: true })
  t.equal(added(new Running(chat)), undefined, 'no stream')
  t.equal(added(new Running(chat, {}, true), { translated: true }), undefined, 'a translation asks by itself')
  t.equal(added(new Running(chat, {}, true), { mayAdd: () => false }), undefined, 'the channel takes no such member')
  const asked: string[] = []
  added(new Running(chat, { stream_options: { include_usage: true } }, true), {
    mayAdd: (key: string) => asked.push(key)
  })
  t.same(asked, [])
})

t.test('a client sees the usage that it asked for, and not that which the gateway asked for', async (t) => {
  const { hooks } = await plugin()
  const messages = [words('a'), event({ id: 'c', choices: [], usage: report(7, 3) }), event('[DONE]')]
  const stageOf = (running: Running, own = attempt(), more: object = {}) =>
    hooks.onResponse!(running as never, { attempt: own, streaming: true, ...more } as never)
  const own = attempt()
  const stage = stageOf(new Running(chat, {}, true), own) as Mapping
  t.equal(stage.takes, 'runs')
  const shown: Message[] = []
  for (const message of messages) stage.map(message, (one) => void shown.push(one))
  t.same(shown, [messages[0], messages[2]])
  stage.end(true)
  t.match(own.usage, { source: 'upstream', usage: { input: 7, output: 3 } })
  const within: Message[] = []
  const silent = event({ id: 'c', choices: [{ index: 0, delta: { content: 'b' } }], usage: null })
  stage.map(silent, (one) => void within.push(one))
  t.equal(within.length, 1)
  t.same(within[0]!.json(), { id: 'c', choices: [{ index: 0, delta: { content: 'b' } }] })
  const raw = run(Buffer.from('bytes'))
  stage.map(raw, (one) => t.equal(one, raw))
  t.ok('observe' in stageOf(new Running(chat, { stream_options: { include_usage: true } }, true))!, 'it asked')
  t.ok('observe' in stageOf(new Running(chat, {}, true), attempt({ translated: true }))!)
  t.ok('observe' in stageOf(new Running(chat), attempt(), { streaming: false })!)

  for (const [running, more] of [
    [new Running(chat), { attempt: undefined }],
    [new Running(chat), { frames: true }],
    [new Running(undefined), {}],
    [new Running({ ...chat, later: true }), {}]
  ] as const)
    t.equal(stageOf(running, attempt(), more), undefined, 'it is not metered here')
})

t.test('what is estimated or refused is counted by channel, for answers and for turns', async (t) => {
  const { hooks, counts, metered } = await plugin()
  metered(new Running(chat), whole('word', report(7, 3)))
  t.same(counts(), [0, 0])
  metered(new Running(chat), whole('word'))
  t.same(counts(), [1, 0])
  metered(new Running(chat), words('word'), false)
  t.same(counts(), [2, 0])
  metered(new Running(chat), whole('word', report(7, -3)))
  t.same(counts(), [3, 1])
  const going = new Running(chat)
  going.set(goingOn, {})
  t.equal(metered(going, whole('word')), undefined, 'it is metered when its work has ended')
  t.same(counts(), [3, 1])

  const running = new Running({ turns: true })
  const own = attempt()
  running.attempts.push(attempt(), own)
  const turn = (more: object): void => {
    const told: (() => void)[] = []
    const measure = (count: () => void): void => void told.push(count)
    const input = { typical: 4 }
    hooks.onTurn!(running as never, { begun: true, ended: true, output: 2, input, measure, ...more } as never)
    for (const count of told) count()
  }
  turn({ reported: usage({ input: 1, output: 1 }) })
  t.same(counts(), [3, 1])
  turn({ reported: 'insane' })
  t.same(counts(), [4, 2])
  turn({ begun: false })
  t.same(counts(), [4, 2])
  t.same(own.usage, { usage: usage({ input: 5, output: 3 }), source: 'estimated' })
  t.equal(running.attempts[0]!.usage, undefined)
})

t.test('an estimate stays within what the model reads and says, what was held, and what was asked for', async (t) => {
  const text = { messages: [{ role: 'user', content: 'x'.repeat(400) }] }
  const of = async (
    model: object | undefined,
    {
      metering = {},
      sent = {},
      held,
      size = 4
    }: { metering?: Partial<Metering>; sent?: object; held?: number; size?: number } = {}
  ): Promise<[number, number]> => {
    const { metered } = await plugin({ size, ...(model && { model: priced({ input: 1n, output: 1n }, model) }) })
    const running = new Running({ ...chat, ...metering }, { ...text, ...sent })
    if (held !== undefined) running.set(heldInput, held)
    const { input, output } = metered(running, whole('y'.repeat(400)))!.usage
    return [input, output]
  }
  t.same(await of({}), [100, 100])
  t.same(await of(undefined), [100, 100], 'a model that nobody knows')
  t.same(await of({}, { size: 8 }), [50, 50])
  t.same(await of({ contextWindow: 30 }), [30, 100])
  t.same(await of({ contextWindow: 30 }, { held: 20 }), [20, 100])
  t.same(await of({}, { held: 20 }), [20, 100])
  t.same(await of({ contextWindow: 30, maxOutputTokens: 40 }), [30, 40])
  t.same(await of({ maxOutputTokens: 40 }, { sent: { max_tokens: 10 } }), [100, 10])
  t.same(await of({ maxOutputTokens: 40 }, { sent: { max_tokens: 90 } }), [100, 40])
  t.same(await of({ maxOutputTokens: 40 }, { sent: { max_tokens: 10, n: 2 }, metering: { counts: ['n'] } }), [100, 20])
  t.same(await of({ maxOutputTokens: 40 }, { metering: { outputLimits: [], mostOutput: 0 } }), [100, 40])
  const prompts = { prompts: 'messages' }
  t.same(
    await of({ contextWindow: 30 }, { metering: prompts, sent: { messages: ['x'.repeat(200), 'y'.repeat(200)] } }),
    [60, 100]
  )
  const searched = { searched: { documents: 'documents', query: 'query' } }
  t.same(await of({ contextWindow: 30 }, { metering: searched }), [100, 100], 'each document is read by itself')
})

t.test('a usage is charged in the units of the price that was held at, or of the present one', async (t) => {
  const tokens = whole('word', report(8, 4))
  const search = { searched: { documents: 'documents', query: 'query' } }
  const sent = { query: 'what', documents: ['a', 'b'] }
  const bySearch = await plugin({ model: priced({ search: 1n }) })
  t.match(bySearch.metered(new Running(search, sent), tokens), { source: 'estimated', usage: { input: 8, search: 1 } })
  t.match(bySearch.metered(new Running({}, sent), tokens), { source: 'estimated', usage: { search: 0 } }, 'no search')
  const held = new Running(search, sent)
  held.set(reservation, { price: { version: 'w', perMillion: { output: 1n } } })
  t.match(bySearch.metered(held, tokens), { source: 'upstream', usage: { input: 8, output: 4 } })
  const early = await plugin({
    model: { prices: [{ from: 1001, price: { version: 'v', perMillion: { search: 1n } } }] }
  })
  t.match(early.metered(new Running(search, sent), tokens), { source: 'upstream' }, 'no price yet')
  const unknown = await plugin()
  t.match(unknown.metered(new Running(search, sent), tokens), { source: 'upstream' })
  const bySecond = await plugin({ model: priced({ second: 1n }) })
  const heard = new Running({ sound: true })
  const form = { files: [{ seconds: 8.2, size: 5 }] } as never
  Object.assign(heard, { body: new RequestBody(heard.body.bytes, heard.body.lens, undefined, form) })
  t.match(bySecond.metered(heard, tokens), { source: 'estimated', usage: { input: 8, output: 4, second: 9 } })
  t.notOk('second' in bySecond.metered(new Running({ sound: true }), tokens)!.usage, 'no sound')

  const tools = await plugin({ model: priced({ input: 1n }) })
  const calling = new Running({ ...chat, tools: chatTools }, { web_search_options: {} })
  t.notOk('web_search' in tools.metered(calling, tokens)!.usage)
  calling.set(offeredTools, { fees: ['web_search'], calls: 1, open: 0 })
  t.match(tools.metered(calling, tokens), { usage: { web_search: 1 } })

  const speak = await plugin({ model: priced({ input: 1n }) })
  const searching = new Running(search, { query: 'x'.repeat(40), documents: ['y'.repeat(40)] })
  const units = new Message('json', Buffer.from('{"meta":{"billed_units":{"search_units":2}},"results":[]}'))
  const own = attempt({ protocol: protocols.rerank })
  t.match(speak.metered(searching, units, true, own), { source: 'estimated', usage: { search: 2, input: 20 } })
  searching.set(heldInput, 7)
  t.match(speak.metered(searching, units, true, own), { usage: { input: 7 } }, 'no more than was held')
})
