// What is held at a price by the plugin quota: bounds, terms, tiers and estimates.
import fc from 'fast-check'
import t from 'tap'
import { noUsage } from '../../core/contract/contract.ts'
import type { Model, GatewayError } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import { priceClasses, pricedClasses } from '../../core/money/classes.ts'
import { costOf } from '../../core/money/price.ts'
import type { Price } from '../../core/money/price.ts'
import { boundOf } from '../../plugins/quota/bound.ts'
import { orderedPieces, promptUsage } from '../../plugins/quota/prompt.ts'
import { amountOf, costsFor, linesOf, termsFor, termsOf } from '../../plugins/quota/terms.ts'
import type { Terms, Units } from '../../plugins/quota/terms.ts'
import { one, priceOf, termsAt, bodyOf, unitsOf, Running, speech } from '../kit/quota.ts'

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
  const listening = new Running([], { sound: true, ...search }, asked)
  Object.assign(listening.body, { form: { files: [{ size: 9, seconds: 2.2 }] } })
  const heard = (perMillion: Price['perMillion']) => promptUsage(listening as never, priceOf(perMillion))
  t.same(heard({ second: 1n, search: 1n }), { ...noUsage, second: 3 })
  t.same(heard({ search: 1n }), { ...noUsage, search: 1 }, 'sold by the search')
  t.end()
})
