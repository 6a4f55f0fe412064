// What added-up usage would have cost at another price, against settling each request at it.
import fc from 'fast-check'
import t from 'tap'
import type { PricedClass } from '../../../core/money/classes.ts'
import { costOf, freePrice, withCall } from '../../../core/money/price.ts'
import type { Price } from '../../../core/money/price.ts'
import { reprice } from '../../../core/money/repricing.ts'
import type { Traffic } from '../../../core/money/repricing.ts'
import type { Usage } from '../../../core/money/usage.ts'

const million = 1_000_000n
const classes = ['input', 'cached_input', 'output', 'image', 'request'] as const satisfies PricedClass[]

const usage: fc.Arbitrary<Usage> = fc
  .record({ input: fc.nat(9000), cached_input: fc.nat(9000), output: fc.nat(9000), image: fc.nat(3) })
  .map((units) => ({ ...units, cache_write: 0, reasoning: 0 }))

const ratesOf = (rate: fc.Arbitrary<bigint>): fc.Arbitrary<Price['perMillion']> =>
  fc.record(Object.fromEntries(classes.map((name) => [name, fc.option(rate, { nil: undefined })]))).map((rates) => {
    return Object.fromEntries(Object.entries(rates).filter(([, value]) => value !== undefined)) as Price['perMillion']
  })

const whole = fc.bigInt(0n, 50_000n).map((nano) => nano * million)
const odd = fc.bigInt(0n, 50_000n * million)

function trafficOf(usages: readonly Usage[], price: Price): Traffic {
  const sum: Record<string, number> = {}
  for (const one of usages)
    for (const [name, units] of Object.entries(withCall(one, price))) sum[name] = (sum[name] ?? 0) + units
  const charge = usages.reduce((all, one) => all + costOf(withCall(one, price), price), 0n)
  return { requests: usages.length, charge, usage: sum, price }
}

const settled = (usages: readonly Usage[], price: Price): bigint =>
  usages.reduce((sum, one) => sum + costOf(withCall(one, price), price), 0n)

t.test('what has no doubt is what settling each request comes to, and the truth is never out of bounds', async (t) => {
  let [exact, doubted] = [0, 0]
  fc.assert(
    fc.property(
      fc.array(usage, { maxLength: 30 }),
      ratesOf(whole),
      fc.oneof(ratesOf(whole), ratesOf(odd)),
      fc.option(fc.record({ above: fc.nat(12_000), changed: ratesOf(odd) }), { nil: undefined }),
      (usages, before, rates, longer) => {
        const own: Price = { version: 'own', perMillion: before }
        const { image: _image, request: _request, ...changed } = longer?.changed ?? {}
        const tier = longer && { above: longer.above, perMillion: { ...rates, ...changed } }
        const other: Price = { version: 'other', perMillion: rates, ...(tier && { tiers: [tier] }) }
        const truth = settled(usages, other)
        const { amount, least, most, doubts } = reprice([trafficOf(usages, own)], other)
        if (least > truth || truth > most) return false
        if (doubts.length === 0) {
          exact++
          return amount === truth && least === truth && most === truth
        }
        doubted++
        // A class without a price is free, by the rule of prices: it is only said.
        return doubts.some(({ why }) => why !== 'unpriced') || amount === truth
      }
    ),
    { numRuns: 2000 }
  )
  t.ok(exact > 100 && doubted > 100, `both occur: ${exact} and ${doubted}`)
})

t.test('it says what cannot be compared', async (t) => {
  const used = { input: 10, cached_input: 0, cache_write: 0, output: 5, reasoning: 2 }
  const own: Price = { version: 'own', perMillion: { input: million, output: million } }
  const traffic = (more: Partial<Record<PricedClass, number>> = {}): Traffic[] => [
    { requests: 2, charge: 15n, usage: { ...used, ...more }, price: own }
  ]
  const why = (found: ReturnType<typeof reprice>): string[] => found.doubts.map((doubt) => doubt.why)
  t.match(reprice(traffic(), own), { amount: 15n, least: 15n, most: 15n, doubts: [] })
  t.match(reprice(traffic(), freePrice), { amount: 0n, most: 0n, doubts: [] }, 'free is exact')
  t.same(why(reprice([], { version: 'x', perMillion: { input: 1n, request: 1n } })), [], 'nothing was used')
  t.match(reprice(traffic({ second: 7 }), own).doubts, [{ why: 'unpriced', class: 'second', units: 7 }])
  const calls = reprice(traffic(), { version: 'c', perMillion: { ...own.perMillion, request: 100n * million } })
  t.match(calls, { amount: 215n, least: 15n, most: 215n })
  t.same(why(calls), ['calls'])
  const known = { ...own, perMillion: { ...own.perMillion, request: million } }
  const counted = reprice([{ requests: 3, charge: 17n, usage: { ...used, request: 2 }, price: known }], {
    version: 'c',
    perMillion: { ...own.perMillion, request: 100n * million }
  })
  t.match(counted, { amount: 215n, least: 215n, most: 215n, doubts: [] }, 'calls that were charged were counted')
  const longer = { ...own, tiers: [{ above: 8, perMillion: { input: 3n * million, output: million } }] }
  t.match(reprice(traffic(), longer), { amount: 15n, least: 15n, most: 35n, doubts: [{ why: 'prompt_length' }] })
  t.same(why(reprice(traffic(), { version: 'p', perMillion: { input: 1n, output: million } })), ['rounding'])
  const output = { ...own, tiers: [{ above: 8, perMillion: { input: million, output: 2n * million } }] }
  t.same(why(reprice([{ ...traffic()[0]!, usage: { input: 10 } }], output)), [], 'the tier is the same for its classes')
  const pictures = (rate: bigint): Price => ({
    version: 'i',
    perMillion: { ...own.perMillion, image: 4n * million },
    pictures: [
      { size: 'large', quality: undefined, price: { version: 'l', perMillion: { image: rate * million, input: 0n } } }
    ]
  })
  t.match(reprice(traffic(), pictures(9n)), { amount: 15n, least: 15n, most: 15n, doubts: [] }, 'no pictures')
  t.match(reprice(traffic({ image: 3 }), pictures(9n)), { amount: 27n, least: 27n, most: 42n })
  t.match(reprice(traffic({ image: 3 }), pictures(1n)), { amount: 27n, least: 18n, most: 27n })
  t.same(why(reprice(traffic({ image: 3 }), pictures(9n))), ['pictures'])
})

t.test('it shows each class with its units and its rate, calls last, and rounds each request by half at most', (t) => {
  const own: Price = { version: 'own', perMillion: { input: million, output: million } }
  const traffic = { requests: 4, charge: 15n, usage: { output: 5, input: 10, second: 0 }, price: own }
  const other: Price = { version: 'o', perMillion: { output: 7n * million + 1n, request: 2n * million } }
  const { lines, amount, least, most, doubts } = reprice([traffic, { ...traffic, requests: 2 }], other)
  t.same(lines, [
    { class: 'input', units: 20, perMillion: undefined },
    { class: 'output', units: 10, perMillion: 7n * million + 1n },
    { class: 'request', units: 6, perMillion: 2n * million }
  ])
  // 70.00001 of output, 12 of calls that nobody counted, and half a nano-dollar for each of six requests.
  t.same([amount, least, most], [82n, 68n, 85n])
  t.same(
    doubts.map(({ why }) => why),
    ['unpriced', 'calls', 'rounding']
  )
  t.match(reprice([{ ...traffic, price: undefined }], other).lines.at(-1), { class: 'request', units: 4 })
  const tiny: Price = { version: 't', perMillion: { input: 1n } }
  t.match(reprice([traffic], tiny), { amount: 0n, least: 0n, most: 2n })
  t.end()
})
