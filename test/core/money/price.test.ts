// Money: decimals that never pass through a float, and costs that are exact to the nano-dollar.
import fc from 'fast-check'
import t from 'tap'
import { formatDollars, parseDollars } from '../../../core/money/money.ts'
import { costOf, isPriced, parsePrice, renderPrice } from '../../../core/money/price.ts'
import { chargeFor } from '../../../core/money/settlement.ts'
import type { Price } from '../../../core/money/price.ts'
import { dueFor, readPrice } from '../../../core/store/due.ts'
import { priceClasses, pricedClasses } from '../../../core/money/classes.ts'
import { limitedTokens, noUsage, sumOf } from '../../../core/money/usage.ts'
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
    { numRuns: 100_000 }
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
