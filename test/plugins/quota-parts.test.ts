// The parts of the plugin quota one by one: what is held at a price, what ends a hold however its exchange ends, and
// what the turns of a session may spend.
import fc from 'fast-check'
import t from 'tap'
import { BodyEdit, RequestBody } from '../../core/bodies/body.ts'
import { GatewayError, noUsage } from '../../core/contract/contract.ts'
import type { Model } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import { caller, charge, goingOn, prompt, quote, reservation, spent } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { priceClasses, pricedClasses } from '../../core/money/classes.ts'
import { costOf } from '../../core/money/price.ts'
import type { Price } from '../../core/money/price.ts'
import type { Usage } from '../../core/money/usage.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import { responsesTools } from '../../core/protocols/hosted-tools.ts'
import type { ReserveRequest } from '../../core/store/ledger.ts'
import { offeredTools } from '../../plugins/estimate.ts'
import quota from '../../plugins/quota/index.ts'
import { boundOf } from '../../plugins/quota/bound.ts'
import { orderedPieces, promptUsage } from '../../plugins/quota/prompt.ts'
import { failedCosts, settle } from '../../plugins/quota/settle.ts'
import type { Hold } from '../../plugins/quota/settle.ts'
import { amountOf, costsFor, linesOf, termsFor, termsOf } from '../../plugins/quota/terms.ts'
import type { Terms, Units } from '../../plugins/quota/terms.ts'
import { billed, holdTurn, openBill } from '../../plugins/quota/turns.ts'
import { TestLedger } from '../kit/ledger.ts'

/** A nano-dollar for each unit. */
const one = 1_000_000n

function priceOf(perMillion: Price['perMillion'], more: Partial<Price> = {}): Price {
  return { version: 'v', perMillion, ...more }
}

function termsAt(price: Price, more: Partial<Model> = {}): Terms {
  return termsOf({ prices: [{ from: -Infinity, price }], ...more } as Model)[0]!
}

function bodyOf(value: object): RequestBody {
  return RequestBody.json(Buffer.from(JSON.stringify(value)))
}

function unitsOf(more: Partial<Units>): Units {
  return { prompt: 0, answer: 0, characters: 0, pictures: 0, call: 0, searches: 0, seconds: 0, tools: 0, ...more }
}

/** An exchange with what these parts ask of it, and what they did to it. */
class Running {
  readonly id = 'r1'
  readonly model = 'demo'
  readonly receivedAt = 1_790_000_000_000
  readonly streaming = false
  readonly attempts: object[]
  readonly body: RequestBody
  readonly request: object
  readonly errors: string[] = []
  readonly ends: ((outcome?: object) => unknown)[] = []
  readonly waits: (() => unknown)[] = []
  readonly #slots = new Map<unknown, unknown>()

  constructor(
    attempts: object[] = [],
    metering: Partial<Metering> = { characters: 'input' },
    body: object = { input: 'four' }
  ) {
    this.attempts = attempts
    this.body = bodyOf(body)
    this.request = {
      operation: { name: 'speech', protocol: 'openai-speech', metering: { outputLimits: [], ...metering } }
    }
  }

  get log(): object {
    return { error: (message: string) => void this.errors.push(message) }
  }

  find(slot: unknown): any {
    return this.#slots.get(slot)
  }

  get(slot: unknown): any {
    return this.#slots.get(slot)
  }

  set(slot: unknown, value: unknown): void {
    this.#slots.set(slot, value)
  }

  defer(end: (outcome?: object) => unknown): void {
    this.ends.push(end)
  }

  showAfter(wait: () => unknown): void {
    this.waits.push(wait)
  }
}

interface Attempted {
  dispatched?: boolean
  channel?: string
  usage?: MeteredUsage | undefined
  error?: GatewayError | undefined
  status?: number | undefined
}

function attemptOf({ dispatched = true, channel = 'a', usage, error, status }: Attempted, number = 1): object {
  return { number, dispatched, channel: { name: channel }, usage, error, status }
}

const speech = priceOf({ character: one, output: one, input: one })

function holdAt(ledger: TestLedger, more: Partial<Hold> = {}): Hold {
  const { price = speech } = more
  const estimate = { input: 5, maxOutput: 2 }
  const scope = { kind: 'key', id: 'key:k', budgets: [] } as const
  const request = { requestId: 'r1', scopes: [scope], amount: 100n, model: 'demo', price, estimate, time: 0 }
  return { reservation: ledger.reserve(request), price, costs: undefined, estimate, abandoned: 'prompt', ...more }
}

const counted: Usage = { ...noUsage, input: 30, output: 12 }

t.test('each end of an exchange is charged as the table of ends says', async (t) => {
  const gone = new GatewayError('client_closed', 'Gone.')
  const errors = {
    none: undefined,
    gone,
    untaken: new GatewayError('client_closed', 'Gone.', { untaken: true }),
    upstream: new GatewayError('upstream_timeout_total', 'Late.'),
    gateway: new GatewayError('internal_error', 'Broken.'),
    large: new GatewayError('answer_too_large', 'Large.')
  }
  const sources = [undefined, 'upstream', 'measured', 'partial', 'estimated'] as const
  let rows = 0
  for (const kind of ['completed', 'failed', 'aborted'] as const)
    for (const bytes of [0, 10])
      for (const source of sources)
        for (const [name, error] of Object.entries(errors))
          for (const abandoned of ['prompt', 'nothing'] as const) {
            const ledger = new TestLedger()
            const usage = source && { usage: counted, source }
            const running = new Running([attemptOf({ usage, error })])
            await settle(running as never, holdAt(ledger, { abandoned }), { kind, bytes } as never)
            const prompt = { usage: { ...noUsage, character: 4 }, source: 'estimated' }
            const wholly = source === 'upstream' || source === 'measured'
            const left = error ? name === 'gone' : kind === 'aborted'
            const due =
              kind === 'completed'
                ? (usage ?? { ...prompt, usage: { ...prompt.usage, output: Math.ceil(bytes / 3) } })
                : usage && bytes > 0
                  ? usage
                  : usage && name === 'large'
                    ? usage
                    : usage && wholly && name !== 'upstream'
                      ? usage
                      : left && abandoned === 'prompt'
                        ? (usage ?? prompt)
                        : undefined
            const [row] = ledger.rows
            const amount = due && costOf(due.usage, speech)
            const said = row!.settled
            const place = JSON.stringify({ kind, bytes, source, name, abandoned })
            t.equal(said?.amount, amount, place)
            t.equal(row!.voided, due ? undefined : true, place)
            if (due) {
              t.same({ usage: said!.usage, source: said!.source, channel: said!.channel }, { ...due, channel: 'a' })
              t.notOk('costs' in said!)
              t.same(running.find(charge), { ...due, amount, reserved: 100n, priceVersion: 'v' })
            } else t.equal(running.find(charge), undefined, place)
            rows++
          }
  t.equal(rows, 3 * 2 * 5 * 6 * 2)
})

t.test('attempts before the last are rows beside it, at what they may have cost', async (t) => {
  const refused = { status: 500 }
  const cost = priceOf({ character: 2n * one }, { version: 'cost of b' })
  const run = async (attempts: Attempted[], kind = 'completed'): Promise<TestLedger['rows'][0]> => {
    const ledger = new TestLedger()
    const numbered = attempts.map((attempt, i) => attemptOf(attempt, i + 1))
    const hold = holdAt(ledger, { costs: new Map([['b', cost]]) })
    const running = new Running(numbered)
    await settle(running as never, hold, { kind, bytes: 0 } as never)
    const before = failedCosts(running as never, hold)
    if (kind === 'completed') t.same(before ?? [], ledger.rows[0]!.costs, 'the same is told to who settles later')
    return ledger.rows[0]!
  }
  const usage: MeteredUsage = { usage: counted, source: 'partial' }
  const nothing = { usage: noUsage, amount: 0n, source: 'estimated', costPrice: undefined }
  const prompt = { usage: { ...noUsage, character: 4 }, amount: 4n, source: 'estimated', costPrice: undefined }
  const row = await run([
    { ...refused },
    { channel: 'b', status: 299 },
    { dispatched: false },
    { channel: 'b', ...refused, usage },
    { error: new GatewayError('client_closed', 'Gone.', { untaken: true }) },
    { error: new GatewayError('client_closed', 'Gone.') },
    {},
    { status: 300 },
    { channel: 'c', usage: { usage: counted, source: 'upstream' } }
  ])
  t.match(row.settled, { channel: 'c', amount: 42n })
  t.same(row.costs, [
    { attempt: 1, channel: 'a', ...nothing },
    { attempt: 2, channel: 'b', ...prompt, costPrice: 'cost of b' },
    { attempt: 4, channel: 'b', usage: counted, amount: 42n, source: 'partial', costPrice: 'cost of b' },
    { attempt: 5, channel: 'a', ...nothing },
    { attempt: 6, channel: 'a', ...prompt },
    { attempt: 7, channel: 'a', ...prompt },
    { attempt: 8, channel: 'a', ...nothing }
  ])
  const failed = await run([{ ...refused }, { channel: 'b', status: 200 }], 'failed')
  t.ok(failed.voided)
  t.same(
    failed.costs.map(({ attempt, amount }) => [attempt, amount]),
    [
      [1, 0n],
      [2, 4n]
    ],
    'all of them where nothing is charged'
  )
  t.same((await run([{ dispatched: false }], 'failed')).costs, [], 'none was sent')
})

t.test('a hold ends whatever cannot be computed, and an end that fails is no answer', async (t) => {
  const broken = (): never => {
    throw new Error('This cannot be counted.')
  }
  const usage = {
    source: 'upstream',
    get usage() {
      return broken()
    }
  } as unknown as MeteredUsage
  const end = async (kind: string, bytes: number): Promise<[TestLedger['rows'][0], Running]> => {
    const ledger = new TestLedger()
    const running = new Running([attemptOf({ usage })])
    await settle(running as never, holdAt(ledger), { kind, bytes } as never)
    return [ledger.rows[0]!, running]
  }
  for (const [kind, bytes, output] of [
    ['completed', 4, 2],
    ['completed', 3, 1],
    ['completed', 0, 0],
    ['aborted', 0, 0],
    ['failed', 1, 1],
    ['failed', 30, 2]
  ] as const) {
    const [{ settled }, { errors }] = await end(kind, bytes)
    t.match(
      settled,
      { usage: { input: 5, output }, source: 'estimated', amount: BigInt(5 + output) },
      `${kind} ${bytes}`
    )
    t.match(errors, [/could not be computed/])
  }
  const [{ voided }, { errors }] = await end('failed', 0)
  t.ok(voided)
  // Neither the charge nor the cost of the attempt.
  t.equal(errors.length, 2)

  const many = new TestLedger()
  const running = new Running([attemptOf({ usage }), attemptOf({ usage: { usage: counted, source: 'upstream' } }, 2)])
  await settle(running as never, holdAt(many), { kind: 'completed', bytes: 9 } as never)
  t.match(many.rows[0]!.settled, { amount: 42n }, 'what an attempt cost is no part of the charge')
  t.notOk('costs' in many.rows[0]!.settled!)

  for (const fails of ['now', 'later']) {
    const ledger = new TestLedger()
    const hold = holdAt(ledger)
    const lost = new Error('The disk is full.')
    const { reservation } = hold
    reservation.settle = () => {
      if (fails === 'now') throw lost
      return Promise.reject(lost)
    }
    const exchange = new Running([attemptOf({ usage: { usage: counted, source: 'upstream' } })])
    const ended = (async () => settle(exchange as never, hold, { kind: 'completed', bytes: 9 } as never))()
    await t.rejects(ended, { code: 'billing_unavailable', cause: lost, details: { retryAfterMs: 1000 } })
    t.equal(exchange.find(charge) === undefined, fails === 'now', 'what was refused was not charged')
  }
})

const rates = fc.record(
  { input: fc.bigInt(0n, 5n), cache_write: fc.bigInt(0n, 5n), output: fc.bigInt(0n, 5n), image: fc.bigInt(0n, 5n) },
  { requiredKeys: [] }
)

t.test('a bound is the most that any split of its units costs, in the dearest tier that the prompt may be in', (t) => {
  const tiers = fc.uniqueArray(fc.record({ above: fc.integer({ min: 0, max: 12 }), perMillion: rates }), {
    selector: ({ above }) => above,
    maxLength: 3
  })
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(rates, tiers, fc.nat(16), fc.nat(3), fc.nat(2), (perMillion, steps, prompt, answer, pictures) => {
        // Whole nano-dollars and halves, so that the rounding shows.
        const half = (of: Price['perMillion']): Price['perMillion'] =>
          Object.fromEntries(Object.entries(of).map(([name, rate]) => [name, rate * 500_000n]))
        const price = priceOf(half(perMillion), {
          tiers: steps
            .toSorted((a, b) => a.above - b.above)
            .map((step) => ({ ...step, perMillion: half(step.perMillion) }))
        })
        let most = 0n
        for (let length = 0; length <= prompt; length++)
          for (const name of ['input', 'cache_write'] as const) {
            const cost = costOf({ ...noUsage, [name]: length, output: answer, image: pictures }, price)
            if (cost > most) most = cost
          }
        const units = unitsOf({ prompt, answer, pictures })
        const terms = termsAt(price)
        const lines = linesOf(terms, units)
        const sum = lines.reduce((total, line) => total + BigInt(line.units) * line.perMillion, 0n)
        return (
          amountOf(terms, units) === most &&
          (sum + 500_000n) / 1_000_000n === most &&
          lines.every((line) => line.units > 0 && line.units <= units[line.counter] && line.perMillion > 0n)
        )
      }),
      { numRuns: 2000 }
    )
  )
  t.end()
})

t.test('a class of every counter is held for at its dearest price', (t) => {
  for (const name of pricedClasses) {
    const terms = termsAt(priceOf({ [name]: 3n * one }))
    const { countedBy } = priceClasses[name]
    t.equal(amountOf(terms, unitsOf({ [countedBy]: 7 })), 21n, name)
    t.same(linesOf(terms, unitsOf({ [countedBy]: 7 })), [{ counter: countedBy, units: 7, perMillion: 3n * one }])
    const others = Object.fromEntries(
      Object.keys(unitsOf({})).map((counter) => [counter, counter === countedBy ? 0 : 7])
    )
    t.equal(amountOf(terms, others as unknown as Units), 0n)
  }
  t.end()
})

t.test('terms begin with each price and each cost, and none before the first price', (t) => {
  const at = (from: number, version: string) => ({ from, price: priceOf({ input: one }, { version }) })
  const made = termsOf({
    prices: [at(10, 'first'), at(30, 'second')],
    costs: new Map([
      ['a', [at(5, 'a early'), at(20, 'a late')]],
      ['b', [at(30, 'b')]]
    ]),
    contextWindow: 7,
    maxOutputTokens: 8,
    tiers: ['flex']
  } as unknown as Model)
  t.same(
    made.map(({ from, price, costs }) => [
      from,
      price.version,
      Object.fromEntries([...costs!].map(([name, { version }]) => [name, version]))
    ]),
    [
      [10, 'first', { a: 'a early' }],
      [20, 'first', { a: 'a late' }],
      [30, 'second', { a: 'a late', b: 'b' }]
    ]
  )
  t.match(made[0], { contextWindow: 7, maxOutputTokens: 8, allowed: ['flex'] })
  t.equal(termsAt(speech).costs, undefined, 'nobody said what upstreams charge')
  t.same(termsOf({ prices: [], costs: new Map([['a', [at(5, 'a')]]]) } as unknown as Model), [])
  t.end()
})

t.test('a service tier has a price of its own, is free with the model, or is refused', (t) => {
  const flex = priceOf({ input: 9n }, { version: 'flex' })
  const services = new Map([['flex', flex]])
  const metering = {
    outputLimits: [],
    tiers: [
      { member: 'service_tier', usual: ['auto', 'default'] },
      { member: 'fast', usual: ['off'] }
    ]
  } satisfies Metering
  const of = (
    body: object,
    more: Partial<Model> = {},
    price = priceOf({ input: 1n }, { version: 'usual', services })
  ) => {
    try {
      return termsFor(bodyOf(body), metering, termsAt(price, more), 'demo').price.version
    } catch (error) {
      const { code, details, message } = error as GatewayError
      return [code, details.param, message, details.reason]
    }
  }
  for (const body of [
    {},
    { service_tier: 'auto' },
    { service_tier: 'Default' },
    { fast: false },
    { service_tier: 'auto', fast: 'off' }
  ])
    t.equal(of(body), 'usual', JSON.stringify(body))
  for (const body of [{ service_tier: 'flex' }, { service_tier: 'FLEX', fast: 'off' }]) t.equal(of(body), 'flex')
  t.equal(of({ service_tier: 'gold' }, {}, priceOf({}, { version: 'free' })), 'free')
  for (const [body, tier] of [
    [{ service_tier: 'gold' }, 'gold'],
    [{ service_tier: 7 }, 'unknown'],
    [{ fast: true }, 'unknown'],
    [{ service_tier: 'flex', fast: 'on' }, 'flex+on'],
    [{ service_tier: 'x'.repeat(80) }, 'x'.repeat(64)]
  ] as const)
    t.match(of(body), [
      'price_missing',
      undefined,
      `The model \`demo\` has no price for the service tier \`${tier}\`.`,
      { by: 'price', what: `the model demo has no price for the service tier ${tier}`, where: 'models.demo.price' }
    ])
  const allowed = { tiers: ['flex', 'gold'] }
  t.equal(of({ service_tier: 'flex' }, allowed), 'flex')
  t.match(of({ service_tier: 'gold' }, allowed), ['price_missing'])
  for (const [body, tier] of [
    [{}, 'default'],
    [{ service_tier: 'silver' }, 'silver']
  ] as const)
    t.match(of(body, allowed), [
      'unsupported_parameter',
      'service_tier',
      `The service tier \`${tier}\` is not offered for the model \`demo\`.`,
      { what: `models.demo.tiers lists flex, gold, and not ${tier}`, where: 'models.demo.tiers' }
    ])
  t.equal(of({}, { tiers: ['default'] }), 'usual')
  t.equal(
    termsFor(bodyOf({ service_tier: 'gold' }), { outputLimits: [] }, termsAt(speech), 'demo').price,
    speech,
    'an operation without tiers'
  )
  t.end()
})

t.test('what a channel charges is that of the tier or the pictures, and not known for a tier without a cost', (t) => {
  const flex = priceOf({ input: 9n }, { version: 'flex' })
  const large = priceOf({ image: 9n }, { version: 'large' })
  const costs = new Map<string, Price>([
    ['a', priceOf({ input: 1n }, { version: 'a', services: new Map([['flex', flex]]) })],
    ['b', priceOf({ input: 2n }, { version: 'b' })],
    ['free', priceOf({}, { version: 'free' })],
    [
      'pictures',
      priceOf({ image: 2n }, { version: 'small', pictures: [{ size: 'large', quality: undefined, price: large }] })
    ]
  ])
  const terms = { ...termsAt(speech), costs }
  const of = (body: object, metering: Partial<Metering>, own: Terms = terms): unknown => {
    const found = costsFor(bodyOf(body), { outputLimits: [], ...metering }, own)
    return found && Object.fromEntries([...found].map(([name, { version }]) => [name, version]))
  }
  const tiers = [{ member: 'service_tier', usual: ['auto'] }]
  const usual = { a: 'a', b: 'b', free: 'free', pictures: 'small' }
  t.same(of({}, {}), usual)
  t.same(of({ service_tier: 'flex' }, {}), usual, 'an operation without tiers')
  t.same(of({ service_tier: 'auto' }, { tiers }), usual)
  t.same(of({ service_tier: 'flex' }, { tiers }), { a: 'flex', free: 'free' })
  t.same(of({ size: 'large' }, { pictures: true }), { ...usual, pictures: 'large' })
  t.same(of({ size: 'tiny' }, { pictures: true }), usual)
  costs.delete('pictures')
  t.equal(costsFor(bodyOf({}), { outputLimits: [], pictures: true }, terms), costs, 'no channel has pictures of kinds')
  t.equal(of({}, {}, { ...terms, costs: undefined }), undefined)
  t.end()
})

t.test('characters, pictures and seconds are counted as they are asked for, and as none where none are', (t) => {
  const perUnit = priceOf({ character: one, image: one, second: one, request: one })
  const setting = { estimate: 'worst', defaultOutput: 3, defaultContext: 100, toolCalls: 2 } as const
  const bound = (metering: Partial<Metering>, body: object, terms = termsAt(perUnit)) =>
    boundOf(new Running([], metering, body) as never, terms, { outputLimits: [], ...metering }, setting)
  const speak = { characters: 'input' }
  t.match(bound(speak, { input: 'four' }), { units: { characters: 4, answer: 32, call: 1, pictures: 0 }, amount: 5n })
  t.match(bound(speak, { input: 7 }).units, { characters: 0, answer: 0 }, 'no text')
  t.match(bound({}, { input: 'four' }).units, { characters: 0, answer: 0, seconds: 0 })
  t.match(bound({ pictures: true, counts: ['n'] }, { n: 3 }), { count: 3, units: { pictures: 3 }, amount: 4n })
  t.match(bound({ counts: ['n'] }, { n: 3 }), { count: 3, units: { pictures: 0 } })
  const film = { seconds: { members: ['seconds'], usual: 4 }, counts: ['n'], outputLimits: ['max'] }
  t.match(bound(film, { n: 2, max: 9 }), { units: { seconds: 8, prompt: 0, answer: 0 }, amount: 9n })
  const limits = { outputLimits: ['max'], counts: ['n'], prediction: 'said' }
  t.match(bound(limits, { max: 5, n: 2 }), { output: 5, limitedBy: 'request', units: { answer: 10 } })
  t.match(bound(limits, { max: 5, n: 2, said: '12' }), { output: 5, units: { answer: 18 } }, 'with its quotation marks')
  t.match(bound(limits, {}), { output: 3, limitedBy: 'nothing' })
  const model = termsAt(perUnit, { maxOutputTokens: 4, contextWindow: 6 } as Partial<Model>)
  t.match(bound(limits, { more: 'words' }, model), { output: 4, limitedBy: 'model', units: { prompt: 6 } })
  t.match(bound(limits, { max: 5 }, model), { output: 4, limitedBy: 'request' })
  t.end()
})

t.test('what a request brings and orders is estimated in the units that its price has', (t) => {
  const brought = (metering: Partial<Metering>, perMillion: Price['perMillion'], body: object) => {
    const exchange = new Running([], metering, body) as never
    return [promptUsage(exchange, priceOf(perMillion)), orderedPieces(exchange, priceOf(perMillion))] as const
  }
  const text = { input: 'four more' }
  const tokens = { ...noUsage, input: 3 }
  const speak = { characters: 'input' }
  t.same(brought(speak, { character: 1n }, text), [{ ...noUsage, character: 9 }, { character: 9 }])
  t.same(brought(speak, { character: 1n }, { input: 7 })[1], { character: 0 })
  t.same(brought(speak, { input: 1n }, text), [tokens, undefined], 'sold by the token')
  t.same(brought({}, { character: 1n }, text), [tokens, undefined], 'speaks nothing')
  const paint = { pictures: true, counts: ['n'] }
  t.same(brought(paint, { image: 1n }, { ...text, n: 3 }), [tokens, { image: 3 }])
  t.same(brought(paint, { input: 1n }, { ...text, n: 3 }), [tokens, undefined])
  t.same(brought({ counts: ['n'] }, { image: 1n }, { ...text, n: 3 }), [tokens, undefined])
  const film = { seconds: { members: ['seconds'], usual: 4 }, counts: ['n'] }
  t.same(brought(film, { second: 1n }, { ...text, seconds: 5, n: 2 }), [tokens, { second: 10 }])
  t.same(brought(film, { input: 1n }, text), [tokens, undefined])
  const search = { searched: { documents: 'documents', query: 'query' } }
  const asked = { query: 'x', documents: ['a', 'b'] }
  t.match(brought(search, { search: 1n }, asked), [{ search: 1 }, { search: 1 }])
  t.match(brought(search, { input: 1n }, asked)[1], undefined)
  t.match(brought({}, { search: 1n, second: 1n }, asked)[1], undefined)
  t.end()
})

const perToken = priceOf({ input: one, output: 2n * one })

/** A session whose key has so much left. */
function session(ledger: TestLedger, { limit, allowance }: { limit?: bigint; allowance?: object } = {}): Running {
  const running = new Running([attemptOf({ channel: 'before' }), attemptOf({})], { turns: true })
  const budgets = limit === undefined ? [] : [{ limit, per: 'total' }]
  running.set(caller, { key: 'k', scopes: [{ kind: 'key', id: 'key:k', budgets }], secret: allowance && { allowance } })
  openBill(running as never, termsAt(perToken), ledger, 10)
  return running
}

/** A turn, with what was asked of it. */
class Turning {
  readonly part: string
  readonly asked: boolean = true
  readonly input = { worst: 50, typical: 20 }
  readonly maxOutput = 5
  readonly output: number = 3
  readonly abandoned: boolean = false
  usage: MeteredUsage | undefined
  readonly ends: (() => Promise<void>)[] = []
  readonly waits: unknown[] = []
  told: (output: number) => void = () => {}

  constructor(part: string, more: Partial<Turning> = {}) {
    this.part = part
    Object.assign(this, more)
  }

  showAfter(wait: unknown): void {
    this.waits.push(wait)
  }

  follow(told: (output: number) => void): void {
    this.told = told
  }

  defer(end: () => Promise<void>): void {
    this.ends.push(end)
  }

  async end(usage?: MeteredUsage): Promise<void> {
    this.usage = usage
    for (const end of this.ends) await end()
  }
}

function begin(ledger: TestLedger, running: Running, turn: Turning, more: object = {}): GatewayError | undefined {
  const setting = { ledger, estimate: 'worst', defaultOutput: 10, abandoned: 'prompt', ...more } as const
  try {
    holdTurn(running as never, running.find(billed), turn as never, setting)
  } catch (error) {
    return error as GatewayError
  }
  return undefined
}

const used = (input: number, output: number, source: MeteredUsage['source'] = 'upstream'): MeteredUsage => ({
  usage: { ...noUsage, input, output },
  source
})

t.test('a session holds nothing, and is opened where one response may be paid', async (t) => {
  const ledger = new TestLedger()
  const running = session(ledger, { limit: 21n })
  t.match(ledger.rows, [{ request: { amount: 0n, requestId: 'r1', streamed: true, endpoint: 'speech' } }])
  t.equal(running.waits.length, 1)
  t.throws(() => session(new TestLedger(), { limit: 20n }), { code: 'quota_key_exceeded' })
  await running.ends[0]!()
  t.ok(ledger.rows[0]!.voided)
  t.equal(running.find(charge), undefined, 'there was no turn')
  const allowance = { limit: 21n, posted: 0n, pending: 0n }
  t.doesNotThrow(() => session(new TestLedger(), { allowance }))
  t.throws(() => session(new TestLedger(), { allowance: { ...allowance, posted: 1n } }), { code: 'quota_key_exceeded' })
  const broken = new TestLedger()
  const lost = session(broken)
  broken.rows[0]!.voided = true
  await t.rejects(async () => lost.ends[0]!())
})

t.test('each turn is held and settled by itself, and the session is charged their sum', async (t) => {
  const ledger = new TestLedger()
  const running = session(ledger)
  const first = new Turning('1')
  t.equal(begin(ledger, running, first), undefined)
  const row = ledger.rows[1]!
  t.match(row, { request: { part: '1', amount: 60n, estimate: { input: 20, maxOutput: 5 } }, dispatched: ['a'] })
  t.equal(first.waits.length, 1)
  first.told(4)
  t.equal(row.delivered, 4)
  await first.end(used(7, 4))
  t.match(row.settled, { amount: 15n, source: 'upstream', channel: 'a', usage: { input: 7, output: 4 } })

  const typical = new Turning('2')
  begin(ledger, running, typical, { estimate: 'typical' })
  t.equal(ledger.rows[2]!.request.amount, 30n)
  await typical.end()
  t.ok(ledger.rows[2]!.voided, 'it never began')
  const guessed = new Turning('3')
  begin(ledger, running, guessed)
  await guessed.end(used(1, 1, 'estimated'))
  const last = new Turning('4')
  begin(ledger, running, last)
  await last.end(used(1, 0))
  await running.ends[0]!()
  t.same(running.find(charge), {
    amount: 19n,
    reserved: 180n,
    priceVersion: 'v',
    usage: { ...noUsage, input: 9, output: 5 },
    source: 'estimated'
  })
})

t.test(
  'a session whose turns cost nothing but held something is charged nothing, and one of free turns is not',
  async (t) => {
    for (const free of [false, true]) {
      const ledger = new TestLedger()
      const running = session(ledger)
      if (free) Object.assign(running.find(billed), { terms: termsAt(priceOf({})) })
      const turn = new Turning('1')
      begin(ledger, running, turn)
      await turn.end(used(0, 0))
      await running.ends[0]!()
      if (free) t.equal(running.find(charge), undefined)
      else t.match(running.find(charge), { amount: 0n, reserved: 60n })
    }
  }
)

t.test(
  'a turn that its client leaves owes its prompt, unless the operator says otherwise or it was counted',
  async (t) => {
    for (const [abandoned, left, usage, amount] of [
      ['prompt', true, undefined, 20n],
      ['nothing', true, undefined, undefined],
      ['prompt', false, undefined, undefined],
      ['prompt', true, used(1, 1), 3n],
      ['nothing', true, used(1, 1), 3n]
    ] as const) {
      const ledger = new TestLedger()
      const turn = new Turning('1', { abandoned: left })
      begin(ledger, session(ledger), turn, { abandoned })
      await turn.end(usage)
      t.equal(ledger.rows[1]!.settled?.amount, amount)
      t.equal(ledger.rows[1]!.voided, amount === undefined ? true : undefined)
    }
  }
)

t.test('a turn that was asked for is refused without money, one that has begun is charged all the same', async (t) => {
  for (const asked of [true, false]) {
    const ledger = new TestLedger()
    const running = session(ledger, { limit: 59n })
    const turn = new Turning('1', { asked })
    t.match(begin(ledger, running, turn), { code: 'quota_key_exceeded' })
    t.equal(turn.ends.length, asked ? 0 : 1)
    t.equal(ledger.rows.length, asked ? 1 : 2)
    if (asked) continue
    t.equal(ledger.rows[1]!.request.amount, 0n)
    await turn.end(used(50, 5))
    t.equal(ledger.rows[1]!.settled!.amount, 60n)
  }
})

t.test('sessions of one client secret spend together what it was given, held or charged', async (t) => {
  const ledger = new TestLedger()
  const allowance = { limit: 130n, posted: 0n, pending: 0n }
  const [one, other] = [session(ledger, { allowance }), session(ledger, { allowance })]
  const [first, second] = [new Turning('1'), new Turning('2')]
  t.equal(begin(ledger, one, first), undefined)
  t.same(allowance, { limit: 130n, posted: 0n, pending: 60n })
  t.equal(begin(ledger, other, second), undefined)
  const refused = begin(ledger, one, new Turning('3'))
  t.equal(
    refused!.message,
    'A response may cost up to 0.00000006 USD, and 0.00000001 USD of what this client secret may spend is left.'
  )
  t.same(refused!.details.reason, {
    by: 'budget',
    level: 'key',
    scope: 'key:k',
    per: 'secret',
    limit_nano: '130',
    asked_nano: '60',
    posted_nano: '0',
    pending_nano: '120',
    left_nano: '10',
    free_at: null
  })
  await first.end(used(30, 10))
  t.same(allowance, { limit: 130n, posted: 50n, pending: 60n })
  await second.end()
  t.same(allowance, { limit: 130n, posted: 50n, pending: 0n }, 'what never began is given back')
  const third = new Turning('4')
  t.equal(begin(ledger, one, third), undefined)
  await third.end(used(100, 0))
  t.equal(allowance.posted, 150n)
  t.match(begin(ledger, one, new Turning('5'))!.details.reason, { left_nano: '0', posted_nano: '150' })
  const exact = { limit: 60n, posted: 0n, pending: 0n }
  t.equal(begin(ledger, session(ledger, { allowance: exact }), new Turning('6')), undefined, 'to the last nano-dollar')
})

t.test(
  'the hold of a turn ends by the estimate where nobody can compute its charge, and a lost end is told',
  async (t) => {
    const ledger = new TestLedger()
    const running = session(ledger)
    const turn = new Turning('1')
    begin(ledger, running, turn)
    const usage = {
      source: 'upstream',
      get usage(): never {
        throw new Error('This cannot be counted.')
      }
    } as unknown as MeteredUsage
    await turn.end(usage)
    t.match(ledger.rows[1]!.settled, { usage: { input: 20, output: 3 }, source: 'estimated', amount: 26n })
    t.match(running.errors, [/could not be computed/])
    const odd = new Turning('2')
    begin(ledger, running, odd)
    await odd.end(used(-1, 0))
    t.match(ledger.rows[2]!.settled, { usage: { input: 20, output: 0 }, source: 'estimated' })
    t.match(running.errors[1], 'cannot be true')
    for (const counted of [used(1, 1), undefined]) {
      const lost = new Turning('3')
      begin(ledger, running, lost)
      ledger.rows.at(-1)!.voided = true
      await t.rejects(async () => lost.end(counted), { code: 'billing_unavailable' })
    }
    ledger.disk = Promise.reject(new Error('The disk is full.'))
    ledger.disk.catch(() => {})
    for (const counted of [used(1, 1), undefined]) {
      const late = new Turning('4')
      begin(ledger, running, late)
      await t.rejects(late.end(counted), { code: 'billing_unavailable' })
    }
  }
)

/** The plugin with a model at these prices, as it is set up with options that are not given otherwise. */
async function pluginWith(
  prices: readonly { from: number; price: Price }[],
  { ledger = new TestLedger(), model = {}, ...options }: { ledger?: TestLedger; model?: object } & Setting = {}
) {
  const models = new Map([['demo', { name: 'demo', prices, ...model }]])
  const given = checkerOf(quota.options, quota.required)(options)
  t.same(given.faults, [])
  const catalogue = { models, scopesNow: ({ scopes }: { scopes: object[] }) => [...scopes, 'now'] }
  return quota.setup(given.value as never, { catalogue, services: { ledger } } as never)
}

type Setting = Partial<Parameters<typeof quota.setup>[0]>

/** A request of a key with so much left. */
function asking(
  limit: bigint | undefined,
  metering: Partial<Metering> | undefined,
  body: object,
  more: object = {}
): Running {
  const running = new Running([], metering, body)
  if (!metering) Object.assign(running.request, { operation: { name: 'models' } })
  const budgets = limit === undefined ? [] : [{ limit, per: 'total' }]
  running.set(caller, { key: 'k', scopes: [{ kind: 'key', id: 'key:k', budgets }] })
  return Object.assign(running, more)
}

const always = (price: Price) => [{ from: -Infinity, price }]
const chat = { outputLimits: ['max_completion_tokens', 'max_tokens'] }

async function heldFor(
  running: Running,
  setting: Setting & { model?: object },
  price = perToken
): Promise<ReserveRequest> {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(price), { ledger, ...setting })
  await hooks.onRequest!(running as never)
  return ledger.rows[0]!.request
}

t.test('what is held where nobody says otherwise is what the options say', async (t) => {
  const output = priceOf({ output: one })
  t.equal((await heldFor(asking(undefined, chat, {}), {}, output)).amount, 4096n)
  t.equal((await heldFor(asking(undefined, chat, {}), { default_output: 1 }, output)).amount, 1n)
  const document = { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }] }
  const input = priceOf({ input: one })
  t.equal((await heldFor(asking(undefined, chat, document), {}, input)).amount, 200_000n)
  t.equal((await heldFor(asking(undefined, chat, document), { default_context: 5000 }, input)).amount, 5000n)
  const tools = { outputLimits: [], tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }] }
  const calls = priceOf({ web_search: one, output: one })
  t.equal((await heldFor(asking(undefined, tools, search), {}, calls)).amount, 16n)
  t.equal((await heldFor(asking(undefined, tools, search), { tool_calls: 1 }, calls)).amount, 1n)
  const check = checkerOf(quota.options, quota.required)
  for (const name of ['default_output', 'default_context', 'tool_calls']) {
    t.same(check({ [name]: 1 }).faults, [])
    t.match(check({ [name]: 0 }).faults, [{ pointer: `/${name}` }])
  }
})

t.test('what is only explained holds nothing, and says what would be held', async (t) => {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(perToken), { ledger, clamp_output: true })
  const rehearsal = { rehearsal: { key: undefined }, setHeader() {} }
  const whole = asking(undefined, chat, { max_tokens: 5 }, rehearsal)
  await hooks.onRequest!(whole as never)
  const input = whole.body.bytes.length
  t.same(whole.find(quote), {
    amount: BigInt(input + 10),
    priceVersion: 'v',
    lines: [
      { counter: 'prompt', units: input, perMillion: one },
      { counter: 'answer', units: 5, perMillion: 2n * one }
    ],
    maxOutput: undefined
  })
  const lowered = asking(BigInt(input + 6), chat, { max_tokens: 5 }, rehearsal)
  await hooks.onRequest!(lowered as never)
  t.match(lowered.find(quote), { amount: BigInt(input + 6), maxOutput: 3 })
  await hooks.onRequest!(asking(undefined, { ...chat, turns: true }, {}, rehearsal) as never)
  t.same(ledger.rows, [])
  const real = asking(undefined, chat, { max_tokens: 5 })
  await hooks.onRequest!(real as never)
  t.equal(real.find(quote), undefined)
  await hooks.onRequest!(asking(undefined, { ...chat, turns: true }, {}) as never)
  t.equal(ledger.rows.length, 2)
})

t.test('a model without a price, by now or for this endpoint, is refused with the remedy', async (t) => {
  const hooks = await pluginWith([{ from: 1_790_000_000_001, price: perToken }])
  const refusal = (running: Running, own = hooks): GatewayError => {
    try {
      void own.onRequest!(running as never)
    } catch (error) {
      return error as GatewayError
    }
    throw new Error('It was let through.')
  }
  const early = refusal(asking(undefined, chat, {}))
  t.equal(early.code, 'price_missing')
  t.equal(early.message, 'The model `demo` has no price, so it cannot be used.')
  t.same(early.details.reason, {
    by: 'price',
    what: 'the model demo has no price',
    where: 'models.demo.price',
    remedy: 'add it there, or say price: free'
  })
  const late = asking(undefined, chat, {}, { receivedAt: 1_790_000_000_001 })
  t.doesNotThrow(() => hooks.onRequest!(late as never))
  const long = refusal(asking(undefined, chat, {}, { model: 'm'.repeat(200) }))
  t.equal(long.message, `The model \`${'m'.repeat(128)}\` has no price, so it cannot be used.`)
  const pictures = await pluginWith(always(priceOf({ image: one })))
  t.match(refusal(asking(undefined, chat, {}), pictures).message, 'has no price for what this endpoint counts')
  t.equal(hooks.onRequest!(asking(undefined, undefined, {}) as never), undefined, 'a list of models costs nothing')

  const tools = { ...chat, tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }] }
  const dear = await pluginWith(always(perToken))
  t.match(refusal(asking(undefined, tools, search), dear).message, 'no price for web_search, which the request offers')
  const free = await pluginWith(always(priceOf({})))
  const running = asking(undefined, tools, search)
  free.onRequest!(running as never)
  t.match(running.find(offeredTools), { fees: ['web_search'] })
})

t.test('an upstream is told a limit of calls where a budget depends on it, and nobody gave one', async (t) => {
  const price = priceOf({ input: one, output: one, web_search: one })
  const tools = { ...chat, tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }], max_tokens: 1 }
  const sent = async (
    limit: bigint | undefined,
    body: object,
    attempt: object = {},
    metering = tools
  ): Promise<unknown> => {
    const hooks = await pluginWith(always(price), { tool_calls: 3, model: { contextWindow: 10 } })
    const running = asking(limit, metering, body)
    hooks.onRequest!(running as never)
    const edit = new BodyEdit(running.body)
    const asked: string[] = []
    const mayAdd = (name: string): boolean => asked.push(name) > 0
    hooks.onAttempt!(running as never, { channel: { name: 'a', traits: {} }, body: edit, mayAdd, ...attempt } as never)
    return [edit.json('max_tool_calls'), ...asked]
  }
  const enough = 1000n
  t.same(await sent(enough, search), [3, 'max_tool_calls'])
  t.same(await sent(undefined, search), [undefined], 'no budget')
  t.same(await sent(enough, { ...search, max_tool_calls: 2 }), [2], 'the client gave one')
  t.same(await sent(enough, { max_tokens: 1 }), [undefined], 'no tools')
  t.same(await sent(enough, search, { translated: true }), [undefined], 'a translated request has none')
  t.same(await sent(enough, search, { mayAdd: () => false }), [undefined], 'the channel does not know it')
  const { limit: _limit, ...without } = responsesTools
  t.same(
    await sent(enough, search, {}, { ...chat, tools: without as never }),
    [undefined],
    'the protocol has no limits'
  )
})

t.test('a request is told what it may have where a budget has less, or where nothing limits it', async (t) => {
  const size = (body: object): bigint => BigInt(Buffer.byteLength(JSON.stringify(body)))
  const room = async (body: object, output: bigint | undefined, setting: Setting & { model?: object } = {}) => {
    const hooks = await pluginWith(always(perToken), setting)
    const headers: Record<string, unknown> = {}
    const setHeader = (name: string, value: unknown): void => void (headers[name] = value)
    const limit = output === undefined ? undefined : size(body) + 2n * output
    const running = asking(limit, chat, body, { setHeader })
    try {
      hooks.onRequest!(running as never)
    } catch (error) {
      return (error as GatewayError).code
    }
    return headers['X-Sluice-Max-Output']
  }
  const ten = { max_tokens: 10 }
  t.equal(await room(ten, 10n), undefined)
  t.equal(await room(ten, 9n), 'quota_key_exceeded')
  t.equal(await room(ten, 10n, { clamp_output: true }), undefined)
  t.equal(await room(ten, 9n, { clamp_output: true }), 9)
  t.equal(await room(ten, 1n, { clamp_output: true }), 1)
  t.equal(await room(ten, 0n, { clamp_output: true }), 'quota_key_exceeded')
  t.equal(await room({}, 20n, { default_output: 20 }), 20, 'nothing else limits it')
  t.equal(await room({}, undefined, { default_output: 20 }), undefined, 'without a budget nothing has to')
  t.equal(await room({}, 19n, { default_output: 20 }), 'quota_key_exceeded')
  const model = { maxOutputTokens: 30 }
  t.equal(await room({}, 30n, { default_output: 20, model }), undefined, 'the model limits it')
  t.equal(await room({}, 29n, { default_output: 20, model }), 29)
  t.equal(await room({}, 20n, { default_output: 20, model }), 20)
  t.equal(await room({}, 19n, { default_output: 20, model }), 'quota_key_exceeded', 'no fewer than the default')
  t.equal(await room({}, 29n, { default_output: 40, model }), 'quota_key_exceeded', 'nor than the model has')
  t.equal(await room({}, 19n, { default_output: 20, model, clamp_output: true }), 19)
})

t.test('a limit is lowered where the client gave it, or put where the upstream looks for one', async (t) => {
  const sent = async (body: object, outputLimits: string[], attempt: object = {}): Promise<unknown> => {
    const hooks = await pluginWith(always(priceOf({ output: one })), { clamp_output: true, default_output: 9 })
    const running = asking(5n, { outputLimits }, body, { setHeader() {} })
    hooks.onRequest!(running as never)
    const edit = new BodyEdit(running.body)
    hooks.onAttempt!(running as never, { channel: { name: 'a', traits: {} }, body: edit, ...attempt } as never)
    return Object.fromEntries(
      [...new Set([...Object.keys(body), ...outputLimits.map((one) => one.split('.')[0]!)])].map((name) => [
        name,
        edit.json(name)
      ])
    )
  }
  const [long, short] = chat.outputLimits as [string, string]
  t.same(await sent({ [short]: 8 }, [long, short]), { [short]: 5, [long]: undefined })
  t.same(await sent({ [short]: 8, [long]: 3 }, [long, short]), { [short]: 5, [long]: 3 })
  t.same(await sent({}, [long, short]), { [short]: undefined, [long]: 5 }, 'the usual one')
  const old = { channel: { name: 'a', traits: { maxTokensMember: short } } }
  t.same(await sent({}, [long, short], old), { [short]: 5, [long]: undefined }, 'the one that the upstream knows')
  t.same(await sent({}, [long, short], { ...old, translated: true }), { [short]: undefined, [long]: 5 })
  const inside = ['config.max', 'config.most', 'settings.max']
  t.same(await sent({ config: { max: 8, k: 1 } }, inside), { config: { max: 5, k: 1 }, settings: undefined })
  t.same(await sent({ config: { max: '8', most: 2 } }, inside), { config: { max: 5, most: 2 }, settings: undefined })
  t.same(await sent({ config: { max: 8, most: 7 } }, inside), { config: { max: 5, most: 5 }, settings: undefined })
  t.same(await sent({ settings: { k: 1 } }, inside), { config: undefined, settings: { k: 1, max: 5 } }, 'beside others')
  t.same(await sent({}, inside), { config: { max: 5 }, settings: undefined })
  t.same(await sent({ [short]: 4 }, [long, short]), { [short]: 4, [long]: undefined }, 'it fits')
})

t.test(
  'a hold is told of its attempts and of what was delivered, and ends with its exchange unless work goes on',
  async (t) => {
    for (const abandoned of ['prompt', 'nothing'] as const)
      for (const goes of [false, true]) {
        const ledger = new TestLedger()
        const hooks = await pluginWith(always(perToken), { ledger, abandoned })
        const running = asking(undefined, chat, { max_tokens: 5 })
        hooks.onRequest!(running as never)
        const row = ledger.rows[0]!
        t.match(row.request, { requestId: 'r1', streamed: false, endpoint: 'speech', clientProtocol: 'openai-speech' })
        hooks.onAttempt!(running as never, { channel: { name: 'b' } } as never)
        t.same(row.dispatched, ['b'])
        t.equal(await running.waits[0]!(), undefined)
        t.equal(running.find(reservation).amount, row.request.amount)
        t.equal(hooks.onResponse!(running as never, { streaming: false } as never), undefined)
        const stage = hooks.onResponse!(running as never, { streaming: true } as never) as { observe(): void }
        const told = Array.from({ length: 130 }, () => (stage.observe(), row.delivered))
        t.same(
          told,
          told.map((_, at) => at + 1 - ((at + 1) % 64))
        )
        t.same(running.find(prompt)(), { usage: promptUsage(running as never, perToken), due: abandoned === 'prompt' })
        t.equal(running.find(spent)(), undefined)
        if (goes) running.set(goingOn, {})
        running.attempts.push(attemptOf({ usage: used(1, 1) }))
        await running.ends[0]!({ kind: 'completed', bytes: 3 })
        t.equal(row.settled?.amount, goes ? undefined : 3n)
        t.equal(ledger.open.length, goes ? 1 : 0)
      }
    const hooks = await pluginWith(always(perToken))
    t.equal(hooks.onResponse!(asking(undefined, chat, {}) as never, { streaming: true } as never), undefined)
  }
)

t.test('an open session is held to the budgets that its key has by now', async (t) => {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(perToken), { ledger, default_output: 7 })
  const running = asking(undefined, { ...chat, turns: true }, {})
  running.attempts.push(attemptOf({}))
  hooks.onTurn!(running as never, new Turning('0') as never)
  t.same(ledger.rows, [], 'it is not opened')
  hooks.onRequest!(running as never)
  const { scopes } = running.find(caller)
  hooks.whileOpen!(running as never)
  t.same(running.find(billed).scopes, [...scopes, 'now'])
  running.find(billed).scopes = scopes
  const turn = new Turning('1', { maxOutput: undefined as never })
  hooks.onTurn!(running as never, turn as never)
  t.equal(ledger.rows[1]!.request.amount, 50n + 14n)
  t.doesNotThrow(() => hooks.whileOpen!(new Running() as never))
})
