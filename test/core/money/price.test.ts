// Money: decimals that never pass through a float, and costs that are exact to the nano-dollar.
import fc from 'fast-check'
import t from 'tap'
import { formatDollars, parseDollars } from '../../../core/money/money.ts'
import {
  costLines,
  costOf,
  inForce,
  isFree,
  isPriced,
  parsePrice,
  renderPrice,
  withCall
} from '../../../core/money/price.ts'
import { chargeFor } from '../../../core/money/settlement.ts'
import type { Price } from '../../../core/money/price.ts'
import { dueFor, readPrice } from '../../../core/store/embedded/database/due.ts'
import { isByQuantity, priceClasses, pricedClasses } from '../../../core/money/classes.ts'
import {
  completionTokens,
  limitedTokens,
  noUsage,
  parsePieces,
  promptTokens,
  renderUsage,
  sumOf
} from '../../../core/money/usage.ts'
import type { PricedClass } from '../../../core/money/classes.ts'
import type { Usage } from '../../../core/money/usage.ts'

/** A fraction of bigints: the oracle, which shares no code with the product. */
class Rational {
  readonly top: bigint
  readonly bottom: bigint

  constructor(top: bigint, bottom: bigint) {
    this.top = top
    this.bottom = bottom
  }

  plus({ top, bottom }: Rational): Rational {
    return new Rational(this.top * bottom + top * this.bottom, this.bottom * bottom)
  }

  /** To the nearest integer, a half up, by long division. */
  rounded(): bigint {
    const whole = this.top / this.bottom
    const rest = this.top - whole * this.bottom
    return rest + rest >= this.bottom ? whole + 1n : whole
  }
}

const units = fc.oneof(fc.nat(5), fc.nat(2_000_000), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }))
const rates = fc.oneof(fc.bigInt(0n, 5n), fc.bigInt(0n, 100_000_000_000n), fc.bigInt(0n, 2n ** 63n))
const classes = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<Partial<Record<PricedClass, T>>> =>
  fc.record(Object.fromEntries(pricedClasses.map((name) => [name, of])) as Record<PricedClass, fc.Arbitrary<T>>, {
    requiredKeys: []
  })

t.test('a cost is the exact fraction, rounded once and half up', (t) => {
  fc.assert(
    fc.property(classes(units), classes(rates), fc.nat(), (used, perMillion, reasoning) => {
      const usage: Usage = { ...noUsage, ...used, reasoning }
      let exact = new Rational(0n, 1n)
      for (const name of pricedClasses)
        exact = exact.plus(new Rational(BigInt(usage[name] ?? 0) * (perMillion[name] ?? 0n), 1_000_000n))
      return costOf(usage, { version: 'x', perMillion }) === exact.rounded()
    }),
    { numRuns: 20_000 }
  )
  t.end()
})

t.test('well-known prices cost what their pages say', (t) => {
  const price: Price = {
    version: 'gpt',
    perMillion: {
      input: 1_250_000_000n,
      cached_input: 125_000_000n,
      output: 10_000_000_000n,
      image: 40_000_000_000_000n
    }
  }
  const cost = (usage: Partial<Usage>): string => formatDollars(costOf({ ...noUsage, ...usage }, price))
  t.equal(cost({}), '0')
  t.equal(cost({ input: 1_000_000 }), '1.25')
  t.equal(
    cost({ input: 1000, cached_input: 1000, output: 1000, reasoning: 900 }),
    '0.011375',
    'reasoning is a part of output'
  )
  t.equal(cost({ image: 2 }), '0.08')
  t.equal(cost({ second: 60 }), '0', 'a class without a price of its own costs nothing')
  const half = { version: 'half', perMillion: { input: 500_000n } }
  t.same(
    [1, 2, 3].map((input) => costOf({ ...noUsage, input }, half)),
    [1n, 1n, 2n],
    'a half goes up, each time from the exact value'
  )
  t.end()
})

t.test('a price is the same after it was stored, whatever the order of its classes', (t) => {
  fc.assert(
    fc.property(classes(rates), (perMillion) => {
      const price = { version: 'v', perMillion }
      const turned = { version: 'v', perMillion: Object.fromEntries(Object.entries(perMillion).reverse()) }
      const back = parsePrice('v', renderPrice(price)).perMillion
      return (
        renderPrice(price) === renderPrice(turned) && pricedClasses.every((name) => back[name] === perMillion[name])
      )
    })
  )
  t.end()
})

t.test('dollars are read as the decimal that stands there', (t) => {
  const read: [string | number, bigint | undefined][] = [
    ['1.25', 1_250_000_000n],
    [1.25, 1_250_000_000n],
    ['0.0375', 37_500_000n],
    [0.1, 100_000_000n],
    ['1e-7', 100n],
    [1e-7, 100n],
    ['2E3', 2_000_000_000_000n],
    ['0', 0n],
    ['000.5', 500_000_000n],
    [' 3 ', 3_000_000_000n],
    ['999999999999', 999_999_999_999_000_000_000n],
    ['9007199254.740993', 9_007_199_254_740_993_000n],
    ['0.0000000001', undefined],
    ['1.0000000000', 1_000_000_000n],
    ['-1', undefined],
    ['', undefined],
    ['1,5', undefined],
    ['.5', undefined],
    ['$5', undefined],
    ['NaN', undefined],
    [Infinity, undefined],
    ['1e99', 10n ** 108n]
  ]
  for (const [text, nano] of read) t.equal(parseDollars(text), nano, JSON.stringify(text))
  t.equal(parseDollars('0.0375', 15), 37_500_000_000_000n, 'at another scale')
  t.end()
})

t.test('what is written reads back as the same amount', (t) => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 20n), (nano) => parseDollars(formatDollars(nano)) === nano),
    { numRuns: 5000 }
  )
  t.same([0n, 1n, 10n, 1_000_000_000n, 1_250_000n, -5n, -1_500_000_000n].map(formatDollars), [
    '0',
    '0.000000001',
    '0.00000001',
    '1',
    '0.00125',
    '-0.000000005',
    '-1.5'
  ])
  t.end()
})

t.test('whoever settles: what cannot be true is charged by the prompt, or by nothing, and said once', (t) => {
  const price: Price = {
    version: 'v',
    perMillion: { input: 1_000_000_000n, output: 2_000_000_000n, request: 500_000_000n }
  }
  const prompt = (): Usage => ({ ...noUsage, input: 7 })
  const doubts: unknown[] = []
  const charged = (usage: Usage, amount = 0n, own = prompt): unknown =>
    chargeFor({ usage, source: 'upstream' }, { amount, price }, own, (unlikely) => doubts.push(unlikely))
  const of = (units: Partial<Usage>): Usage => ({ ...noUsage, ...units })
  t.same(charged(of({ input: 3, output: 2 })), {
    usage: of({ input: 3, output: 2, request: 1 }),
    source: 'upstream',
    amount: 7500n
  })
  t.same(doubts, [])
  const absurd = of({ input: 3, output: 10 ** 13 })
  const estimated = { usage: of({ input: 7, request: 1 }), source: 'estimated', amount: 7500n }
  t.same(charged(absurd), estimated)
  t.same(doubts.splice(0), [absurd])
  t.same(
    charged(absurd, 2n * 10n ** 16n),
    { usage: of({ input: 3, output: 10 ** 13, request: 1 }), source: 'upstream', amount: 20_000_000_000_003_500n },
    'what was held for is believed'
  )
  t.same(
    charged(absurd, 0n, () => absurd),
    { usage: of({}), source: 'estimated', amount: 0n }
  )
  t.same(doubts, [absurd])
  t.end()
})

t.test('sums, roundings and what is counted hold at their borders', (t) => {
  t.same(parsePieces(null), {})
  t.same(parsePieces('{"image":2}'), { image: 2 })
  t.same(sumOf({ ...noUsage, input: 1 }, { ...noUsage, input: 2, audio_input: 3 }), {
    ...noUsage,
    input: 3,
    audio_input: 3
  })
  t.equal(limitedTokens({ ...noUsage, input: 1, cached_input: 2, cache_write: 4, output: 8, image_input: 16 }), 29)
  const one = (input: bigint): Price => ({ version: 'one', perMillion: { input } })
  t.equal(costOf({ ...noUsage, input: 1 }, one(499_999n)), 0n, 'just below a half')
  t.equal(costOf({ ...noUsage, input: 1 }, one(500_000n)), 1n, 'a half')
  t.equal(costOf({ ...noUsage, image: 3_000_000 }, one(5n)), 0n, 'what has no price adds nothing')
  const { countedBy } = priceClasses.input
  t.equal(
    isPriced({ version: 'two', perMillion: { input: 1n, request: 1n } }, [countedBy]),
    true,
    'one of two is enough'
  )
  t.equal(isPriced({ version: 'two', perMillion: { request: 1n } }, [countedBy]), false)
  t.equal(isPriced({ version: 'none', perMillion: {} }, [countedBy]), true, 'what is free needs no price')
  t.end()
})

t.test('a price is free with nothing in it, and in force from its first millisecond', (t) => {
  t.equal(isFree({ perMillion: {} }), true)
  t.equal(isFree({ perMillion: { input: 1n } }), false, 'one class is enough')
  t.equal(isFree({ perMillion: { request: 0n } }), false, 'a price of zero is one')
  const periods = [{ from: -Infinity }, { from: 1000 }, { from: 2000 }]
  t.same(
    [999, 1000, 1999, 2000].map((time) => inForce(periods, time)?.from),
    [-Infinity, 1000, 1000, 2000]
  )
  t.equal(inForce(periods.slice(1), 999), undefined)
  t.same(
    pricedClasses.filter((name) => isByQuantity(name)),
    pricedClasses.filter((name) => /input|output|cache|character/.test(name)),
    'tokens and characters are sold by the million, all else by the piece'
  )
  t.end()
})

t.test('lines of a cost are what has units and a price, at the rates of its tier', (t) => {
  const price: Price = {
    version: 'v',
    perMillion: { input: 1_000_000n, output: 0n, request: 3_000_000n },
    tiers: [
      { above: 10, perMillion: { input: 2_000_000n } },
      { above: 20, perMillion: { input: 4_000_000n, output: 5_000_000n } }
    ]
  }
  const lines = (more: Partial<Usage>): unknown => costLines({ ...noUsage, ...more }, price)
  t.same(lines({ input: 10, output: 1, image: 1 }), [{ class: 'input', units: 10, perMillion: 1_000_000n }])
  t.same(lines({ input: 20 }), [{ class: 'input', units: 20, perMillion: 2_000_000n }])
  t.same(lines({ input: 11, image_input: 10, output: 1 }), [
    { class: 'input', units: 11, perMillion: 4_000_000n },
    { class: 'output', units: 1, perMillion: 5_000_000n }
  ])
  const used: Usage = { ...noUsage, input: 1 }
  t.same(withCall(used, price), { ...used, request: 1 })
  const without = withCall(used, { version: 'v', perMillion: { input: 1n } })
  t.same(without, used)
  t.not(without, used, 'a usage of its own')
  t.same(parsePrice('v', renderPrice(price)), price, 'tiers are stored like the rest')
  t.equal(renderPrice({ version: 'v', perMillion: { input: 1n } }), '{"input":"1"}')
  t.end()
})

t.test('prompt and answer are counted by their classes, and a usage is written as JSON', (t) => {
  const usage: Usage = { ...noUsage, input: 1, cached_input: 2, cache_write: 4, output: 8, reasoning: 5 }
  const media: Usage = { ...usage, audio_input: 16, image_input: 32, audio_output: 64, image_output: 128, second: 9 }
  t.same([promptTokens(usage), completionTokens(usage)], [7, 8])
  t.same([promptTokens(media), completionTokens(media)], [55, 200])
  for (const one of [usage, media]) t.equal(renderUsage(one), JSON.stringify(one))
  t.end()
})

t.test('a charge is believed up to a million dollars above its hold, and not a nano-dollar more', (t) => {
  const price: Price = { version: 'v', perMillion: { input: 1_000_000n } }
  const source = (input: number, amount: bigint): string =>
    chargeFor(
      { usage: { ...noUsage, input }, source: 'upstream' },
      { amount, price },
      () => noUsage,
      () => {}
    ).source
  t.same(
    [source(10 ** 15, 0n), source(10 ** 15 + 1, 0n), source(10 ** 15 + 1, 1n)],
    ['upstream', 'estimated', 'upstream']
  )
  t.end()
})

t.test('numbers that are no counts are charged by the prompt, and never thrown at whoever settles', (t) => {
  const price: Price = { version: 'v', perMillion: { input: 1_000_000n } }
  for (const odd of [1.5, -1, NaN, Infinity, 2 ** 60]) {
    let doubts = 0
    const charged = (prompt: number): object =>
      chargeFor(
        { usage: { ...noUsage, input: odd }, source: 'upstream' },
        { amount: 10n, price },
        () => ({ ...noUsage, input: prompt }),
        () => doubts++
      )
    t.match(charged(3), { usage: { input: 3 }, source: 'estimated', amount: 3n }, String(odd))
    t.match(charged(odd), { usage: { input: 0 }, source: 'estimated', amount: 0n }, String(odd))
    t.equal(doubts, 2)
  }
  t.end()
})

t.test('what is due for a stored usage: tiers begin above their border, and no count is odd', (t) => {
  const price = readPrice('{"input":"1000000","tiers":[{"above":10,"input":"2000000"}]}')
  t.equal(dueFor('{"input":10}', price), 10n)
  t.equal(dueFor('{"input":11}', price), 22n)
  t.equal(dueFor('{"input":4,"cached_input":7}', price), 8n, 'the whole prompt says which tier')
  for (const odd of ['{"input":-1}', '{"input":1.5}', '{"input":1e300}', '{"input":"1"}']) {
    t.match(dueFor(odd, price), /^counts .* input$/, odd)
  }
  for (const none of ['null', '1', 'no JSON', undefined]) t.equal(dueFor(none, price), 'has no usage', String(none))
  t.end()
})
