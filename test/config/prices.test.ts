// Prices: exact from the digits in the file to what a request is charged, whatever its length and date.
import fc from 'fast-check'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../config/load.ts'
import { costOf, parsePrice, renderPrice } from '../../core/money/price.ts'
import type { Model } from '../../core/catalogue/catalogue.ts'
import { RequestBody } from '../../core/bodies/body.ts'
import { termsFor, termsOf } from '../../plugins/quota/terms.ts'
import type { Price, PricePeriod } from '../../core/money/price.ts'
import { pricedClasses } from '../../core/money/classes.ts'
import { noUsage } from '../../core/money/usage.ts'
import type { PricedClass } from '../../core/money/classes.ts'
import type { Usage } from '../../core/money/usage.ts'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import { plugins } from './plugins.ts'

const file = join(t.testdir(), 'gateway.yaml')

/** The prices of models, as the loader reads them. `upstream` names them there, by default as here. */
function pricesOf(
  models: Record<string, unknown>,
  upstream: Record<string, string> = {}
): Map<string, readonly PricePeriod[]> {
  const served = Object.fromEntries(Object.keys(models).map((name) => [name, upstream[name] ?? name]))
  const entries = Object.fromEntries(Object.entries(models).map(([name, price]) => [name, { price }]))
  writeFileSync(
    file,
    JSON.stringify({ channels: { demo: { protocol: 'simulator', models: served } }, models: entries, chain: ['auth'] })
  )
  const { config, problems } = loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return new Map([...config.models].map(([name, { prices }]) => [name, prices]))
}

function priceOf(price: unknown): Price {
  return pricesOf({ demo: price }).get('demo')![0]!.price
}

/** A decimal number as digits and how many of them are decimals: what the oracle counts with. */
interface Decimal {
  digits: bigint
  decimals: number
}

const written = ({ digits, decimals }: Decimal): string => {
  const text = digits.toString().padStart(decimals + 1, '0')
  return decimals === 0 ? text : `${text.slice(0, -decimals)}.${text.slice(-decimals)}`
}

const decimal: fc.Arbitrary<Decimal> = fc.record({
  digits: fc.bigInt(0n, 999_999n),
  decimals: fc.integer({ min: 0, max: 9 })
})
/** Of one picture or call: at most a thousand dollars. */
const small: fc.Arbitrary<Decimal> = fc.record({
  digits: fc.bigInt(0n, 99_999n),
  decimals: fc.integer({ min: 2, max: 15 })
})
const tokenClasses = [
  'input',
  'cached_input',
  'cache_write',
  'cache_write_long',
  'output',
  'audio_input',
  'audio_output',
  'image_input',
  'image_output'
] as const
const tools: readonly string[] = ['tool_call', 'web_search', 'file_search', 'code_interpreter']
const single: readonly string[] = ['image', 'request', 'search', 'second', ...tools]
const parents: Record<string, string> = {
  cache_write_long: 'cache_write',
  cached_input: 'input',
  cache_write: 'input',
  audio_input: 'input',
  image_input: 'input',
  audio_output: 'output',
  image_output: 'output',
  web_search: 'tool_call',
  file_search: 'tool_call',
  code_interpreter: 'tool_call'
}
type Written = Partial<Record<PricedClass, Decimal>>
const some = (names: readonly PricedClass[]): fc.Arbitrary<Written> =>
  fc.record(
    Object.fromEntries(names.map((name) => [name, single.includes(name) ? small : decimal])) as Record<
      PricedClass,
      fc.Arbitrary<Decimal>
    >,
    { requiredKeys: [] }
  )

interface Entry {
  base: Written
  tiers: { above: number; changes: Written }[]
}

const entry: fc.Arbitrary<Entry> = fc.record({
  base: fc.tuple(some(pricedClasses), decimal, decimal).map(([rates, input, output]) => ({ ...rates, input, output })),
  tiers: fc
    .uniqueArray(
      fc.record({
        above: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 1_000_000 })),
        changes: fc.tuple(some(tokenClasses), decimal).map(([rates, input]) => ({ ...rates, input }))
      }),
      { maxLength: 3, selector: ({ above }) => above }
    )
    .map((tiers) => tiers.sort((a, b) => a.above - b.above))
})

const asYaml = (rates: Written): Record<string, string> =>
  Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, written(rate)]))
const toYaml = ({ base, tiers }: Entry): object => ({
  ...asYaml(base),
  ...(tiers.length > 0 && { tiers: tiers.map(({ above, changes }) => ({ above, ...asYaml(changes) })) })
})

const count = fc.oneof(fc.nat(5), fc.nat(100), fc.nat(2_000_000), fc.integer({ min: 0, max: 2 ** 40 }))
const usage: fc.Arbitrary<Usage> = fc
  .record(Object.fromEntries(pricedClasses.map((name) => [name, count])) as Record<PricedClass, fc.Arbitrary<number>>, {
    requiredKeys: []
  })
  .map((used) => ({ ...noUsage, ...used }))

/** The cost by the rules of the manual, as one fraction over powers of ten, rounded by long division. */
function oracle({ base, tiers }: Entry, used: Usage): bigint {
  const prompt = [
    used.input,
    used.cached_input,
    used.cache_write,
    used.cache_write_long,
    used.audio_input,
    used.image_input
  ].reduce<bigint>((sum, part) => sum + BigInt(part ?? 0), 0n)
  const changes = tiers.filter(({ above }) => prompt > BigInt(above)).at(-1)?.changes ?? {}
  const rates: Written = { ...base, ...changes }
  // Dollars × 10^15, as a token of a dollar per million with 9 decimals is 10^-15.
  let exact = 0n
  for (const name of pricedClasses) {
    const rate =
      rates[name] ??
      rates[(parents[name] ?? name) as PricedClass] ??
      rates[(parents[parents[name] ?? name] ?? name) as PricedClass]
    if (rate)
      exact += BigInt(used[name] ?? 0) * rate.digits * 10n ** BigInt((single.includes(name) ? 15 : 9) - rate.decimals)
  }
  const nano = exact / 1_000_000n
  return exact % 1_000_000n >= 500_000n ? nano + 1n : nano
}

t.test('a cost is the exact fraction of the digits in the file, by the length of the prompt, rounded once', (t) => {
  fc.assert(
    fc.property(
      fc.array(entry, { minLength: 8, maxLength: 8 }),
      fc.array(usage, { minLength: 30, maxLength: 30 }),
      (entries, usages) => {
        const prices = pricesOf(Object.fromEntries(entries.map((written, index) => [`m${index}`, toYaml(written)])))
        return entries.every((written, index) => {
          const { price } = prices.get(`m${index}`)![0]!
          const stored = parsePrice(price.version, renderPrice(price))
          const lengths = written.tiers.flatMap(({ above }) => [
            { ...noUsage, input: above, output: 7 },
            { ...noUsage, cached_input: above, audio_input: 1, output: 7 }
          ])
          return [...usages, ...lengths].every((used) => {
            const due = oracle(written, used)
            return costOf(used, price) === due && costOf(used, stored) === due
          })
        })
      }
    ),
    { numRuns: 60 }
  )
  t.end()
})

t.test('a tier begins above its bound and holds for the whole request', (t) => {
  const price = priceOf({
    input: 1,
    cached_input: 0.1,
    output: 10,
    request: 0.5,
    tiers: [
      { above: 1000, input: 2 },
      { above: 2000, output: 40 }
    ]
  })
  const cost = (used: Partial<Usage>): bigint => costOf({ ...noUsage, ...used }, price)
  t.equal(cost({ input: 1000, output: 1 }), 1_000_000n + 10_000n)
  t.equal(cost({ input: 1001, output: 1 }), 2_002_000n + 10_000n)
  t.equal(
    cost({ input: 1, cached_input: 1000, output: 1 }),
    2000n + 100_000n + 10_000n,
    'cached tokens count, and keep their own price'
  )
  t.equal(
    cost({ input: 500, audio_input: 501 }),
    1_000_000n + 1_002_000n,
    'what has no price of its own follows the input of the tier'
  )
  t.equal(cost({ input: 2001, output: 1 }), 2001n * 1000n + 40_000n, 'a tier changes the price, not the tier before')
  t.equal(cost({ input: 2001, request: 1 }), 2001n * 1000n + 500_000_000n)
  t.equal(cost({ output: 5000 }), 50_000_000n, 'output makes no prompt long')
  t.equal(
    renderPrice(price)
      .match(/"above":"\d+"/g)
      ?.join(),
    '"above":"1000","above":"2000"'
  )
  t.end()
})

t.test('equal prices have one version, and tiers make another', (t) => {
  const plain = { input: 1, output: 2 }
  const versions = [
    plain,
    { ...plain, tiers: [{ above: 5, input: 2 }] },
    { ...plain, tiers: [{ above: 6, input: 2 }] },
    { ...plain, tiers: [{ above: 5, input: 3 }] }
  ].map((price) => priceOf(price).version)
  t.equal(new Set(versions).size, 4)
  t.equal(
    priceOf({ ...plain, tiers: [{ above: 5, input: '2.0', output: 2, cached_input: 2 }] }).version,
    versions[1],
    'a tier that says what holds anyway'
  )
  t.equal(priceOf([plain]).version, versions[0], 'the date is not a part of the price')
  t.equal(priceOf({ from: '2020-01-01', ...plain }).version, versions[0])
  t.end()
})

t.test('prices by date are in the order of the file', (t) => {
  const periods = pricesOf({
    demo: [
      { input: 3, output: 3 },
      { from: '2026-07-01', input: 2, output: 2 },
      { from: '2026-12-01T12:00:00+01:00', input: 1, output: 1 }
    ]
  }).get('demo')!
  t.same(
    periods.map(({ from }) => from),
    [-Infinity, Date.UTC(2026, 6, 1), Date.UTC(2026, 11, 1, 11)]
  )
  t.same(
    periods.map(({ price }) => price.perMillion.input),
    [3_000_000_000n, 2_000_000_000n, 1_000_000_000n]
  )
  t.end()
})

/** A gateway in memory with one priced model, that answers with the usage it is given. */
async function gateway(
  t: Test,
  price: unknown
): Promise<
  (usage: [prompt: number, output: number], body?: object) => Promise<{ status: number; held: bigint; paid: bigint }>
> {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream) }, models: { demo: { price } } })
  return async ([prompt, output], body = {}) => {
    upstream.json(chatAnswer(prompt, output))
    const { status } = await bench.send({ body })
    const row = bench.ledger.rows.at(-1)
    return { status, held: row?.request.amount ?? -1n, paid: row?.settled?.amount ?? -1n }
  }
}

const days = (count: number): string => new Date(Date.now() + count * 86_400_000).toISOString()

t.test('a request is charged the price in force when it arrives', async (t) => {
  const ask = await gateway(t, [
    { input: 1, output: 1 },
    { from: days(-2), input: 2, output: 2 },
    { from: days(-1), input: 3, output: 3 },
    { from: days(1), input: 4, output: 4 }
  ])
  t.match(await ask([10, 5]), { status: 200, paid: 15n * 3000n })
})

t.test('before the first date a model is refused, and nothing is held', async (t) => {
  const ask = await gateway(t, [{ from: days(1), input: 4, output: 4 }])
  t.match(await ask([10, 5]), { status: 503, held: -1n })
})

t.test('what is held of a budget covers every tier that the request can reach', async (t) => {
  /** Dollars: cheap, dear and cheap again, so that the dearest is in the middle. */
  const ask = await gateway(t, {
    input: 1,
    output: 10,
    tiers: [
      { above: 100, input: 50, audio_output: 80 },
      { above: 200, input: 2, audio_output: 10 }
    ]
  })
  await fc.assert(
    fc.asyncProperty(
      fc.nat(300),
      fc.integer({ min: 1, max: 50 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      async (filler, limit, part) => {
        const body = { max_tokens: limit, messages: [{ role: 'user', content: 'x'.repeat(filler) }] }
        const size = Buffer.byteLength(JSON.stringify({ model: 'demo', ...body }))
        const { held, paid } = await ask([Math.floor(part * size), limit], body)
        const tiers = [
          [size < 100 ? size : 100, 1000, 10_000],
          ...(size > 100 ? [[Math.min(size, 200), 50_000, 80_000]] : []),
          ...(size > 200 ? [[size, 2000, 10_000]] : [])
        ] as const
        const most = Math.max(...tiers.map(([input, inRate, outRate]) => input! * inRate! + limit * outRate!))
        return paid <= held && held === BigInt(most)
      }
    ),
    { numRuns: 60 }
  )
})

const list = JSON.parse(readFileSync(join(import.meta.dirname, '../../config/prices/price-list.json'), 'utf8')) as {
  source: string
  licence: string[]
  prices: { vendor: string; models: string[]; price: ListPrice | ListPrice[] }[]
  left_out: { because: string; models: string[] }[]
}
type ListPrice = Record<string, string> & { tiers?: Record<string, string | number>[] }

const dated = (name: string): string => name.replace('YYYYMMDD', '20260102').replace('YYYY-MM-DD', '2026-01-02')
const names = list.prices.flatMap(({ models }) => models)

t.test('every entry of the price list is a price, to the digit', (t) => {
  const prices = pricesOf(Object.fromEntries(names.map((name) => [dated(name), 'list'])))
  for (const { models, price } of list.prices) {
    const periods = Array.isArray(price) ? price : [price]
    for (const name of models) {
      const read = prices.get(dated(name))!
      t.same(
        read.map(({ from }) => from),
        periods.map(({ from }) => (from === undefined ? -Infinity : Date.parse(from))),
        name
      )
      read.forEach(({ price: { perMillion, tiers = [] } }, index) => {
        const { tiers: longer = [], from, ...rates } = periods[index]!
        const nano = (rate: string | number, unit: string): bigint => {
          const [whole, fraction = ''] = String(rate).split('.')
          return BigInt(whole! + fraction) * 10n ** BigInt((single.includes(unit) ? 15 : 9) - fraction.length)
        }
        const exact = (rates: object): object =>
          Object.fromEntries(Object.entries(rates).map(([unit, rate]) => [unit, nano(rate, unit)]))
        t.match(perMillion, exact(rates), name)
        t.same(
          tiers.map(({ above }) => above),
          longer.map(({ above }) => above),
          name
        )
        longer.forEach(({ above, ...changes }, at) =>
          t.match(tiers[at]!.perMillion, exact(changes), `${name} above ${above}`)
        )
      })
    }
  }
  t.end()
})

t.test('the price list has no noise in its digits, no name twice, and says where it is from', (t) => {
  const rates = list.prices
    .flatMap(({ price }) => [price].flat())
    .flatMap(({ tiers = [], from, ...rates }) => [
      ...Object.values(rates),
      ...tiers.flatMap(({ above, ...changes }) => Object.values(changes))
    ])
  t.ok(rates.length > 500)
  t.same(
    rates.filter((rate) => !/^(0|[1-9]\d*)(\.\d{0,5}[1-9])?$/.test(String(rate))),
    []
  )
  const all = [...names, ...list.left_out.flatMap(({ models }) => models)]
  t.same(
    all.filter((name, index) => all.indexOf(name) !== index),
    []
  )
  t.match(list.source, /genai-prices \d+\.\d+\.\d+, npm, 2026-\d\d-\d\d/)
  t.match(list.licence.join('\n'), /MIT License[^]*Copyright \(c\) Pydantic[^]*WITHOUT WARRANTY/)
  for (const vendor of ['openai', 'anthropic', 'google'])
    t.ok(list.prices.filter((entry) => entry.vendor === vendor).length > 15, vendor)
  t.end()
})

t.test('published prices are what the vendors say', (t) => {
  const cost = (name: string, used: Partial<Usage>): bigint =>
    costOf({ ...noUsage, ...used }, pricesOf({ [name]: 'list' }).get(name)![0]!.price)
  const million = 1_000_000
  t.equal(cost('gpt-4o', { input: million, cached_input: million, output: million }), 13_750_000_000n)
  t.equal(
    cost('claude-opus-4-5', { input: million, cache_write: million, cached_input: million, output: million }),
    36_750_000_000n
  )
  t.equal(cost('gemini-2.5-pro', { input: 200_000, output: million }), 10_250_000_000n)
  t.equal(cost('gemini-2.5-pro', { input: 200_001, output: million }), 15_500_002_500n, 'a long prompt')
  t.equal(cost('text-embedding-3-small', { input: million }), 20_000_000n)
  t.equal(cost('whisper-1', { second: 60 }), 6_000_000n)
  t.end()
})

t.test('a model is found by its public name, its date or its name upstream', (t) => {
  const prices = pricesOf(
    { 'gpt-5': 'list', 'claude-sonnet-4-5-20250929': 'list', fast: 'list', house: 'list' },
    { 'gpt-5': 'deployment-7', fast: 'gpt-4o-mini', house: 'gpt-5-nano-2025-08-07' }
  )
  const input = (name: string): bigint | undefined => prices.get(name)![0]!.price.perMillion.input
  t.equal(input('gpt-5'), 1_250_000_000n)
  t.equal(input('claude-sonnet-4-5-20250929'), 3_000_000_000n)
  t.equal(input('fast'), 150_000_000n)
  t.equal(input('house'), 50_000_000n)
  t.throws(
    () => pricesOf({ 'gpt-4o-2099-01-01': 'list' }),
    /the price list has no "gpt-4o-2099-01-01", did you mean "gpt-4o-20/,
    'a date that the list does not know of'
  )
  t.throws(
    () => pricesOf({ gpt5: 'list' }),
    /models\.gpt5\.price: the price list has no "gpt5", did you mean "gpt-5"\?/
  )
  t.end()
})

t.test('a picture has the price of what was asked for: the first entry that fits, else the one of all', (t) => {
  const price = priceOf({
    input: 1,
    output: 2,
    image: 0.04,
    pictures: [
      { size: '1792x1024', quality: 'hd', image: '0.12' },
      { quality: 'hd', image: 0.08 }
    ]
  })
  const pricedAs = (size: string, quality: string): Price =>
    termsFor(
      RequestBody.json(Buffer.from(JSON.stringify({ size, quality }))),
      { outputLimits: [], pictures: true },
      termsOf({ prices: [{ from: 0, price }] } as unknown as Model)[0]!,
      'demo'
    ).price
  const cost = (size: string, quality: string): bigint =>
    costOf({ ...noUsage, input: 3, image: 2 }, pricedAs(size, quality))
  t.equal(cost('1792x1024', 'hd'), 3000n + 240_000_000n)
  t.equal(cost('1024x1024', 'hd'), 3000n + 160_000_000n)
  t.equal(cost('1792x1024', 'auto'), 3000n + 80_000_000n)
  const versions = new Set(
    ['hd', 'auto'].flatMap((quality) => ['1792x1024', 'x'].map((size) => pricedAs(size, quality).version))
  )
  t.equal(versions.size, 3, 'each is a price of its own in the books')
  t.equal(renderPrice(pricedAs('x', 'hd')), renderPrice(priceOf({ input: 1, output: 2, image: 0.08 })))
  t.throws(() => priceOf({ image: 0.04, pictures: [{ image: 1 }] }), /fits every picture/)
  t.end()
})
