// What the upstreams charge the operator: `cost` of a channel, beside the prices that customers are charged.
import { parseDollars } from '../../core/money/money.ts'
import { isMap } from '../../core/options/schema-check.ts'
import { suggestion } from '../../core/options/suggest.ts'
import { modelKeys } from '../names.ts'
import type { Names } from './price-list.ts'
import { pricesIfListed, priceShape, readPrices, versioned } from './prices.ts'
import type { Channel } from '../../core/catalogue/catalogue.ts'
import type { Price, PricePeriod, Rates } from '../../core/money/price.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import type { Report } from '../report.ts'

export const costShape = {
  type: 'object',
  description:
    'What the upstream charges the operator, for margins and for comparing with its invoices; no customer pays it. What nothing is said of is not known, and never guessed.',
  examples: [{ of: 'list' }, { of: 'price', factor: 0.8, models: { 'gpt-5': { input: 1, output: 8 } } }],
  properties: {
    of: {
      type: 'string',
      enum: ['price', 'list'],
      description: 'What models cost that are not below: as much as their `price`, or the public price.'
    },
    factor: {
      type: 'string',
      format: 'decimal',
      examples: ['0.85'],
      description: 'Times this, for a discount or a fee; at most 100, with at most 6 decimals. Default: 1.'
    },
    models: {
      type: 'object',
      default: {},
      propertyNames: modelKeys,
      description:
        'What single models cost, or those of a pattern, by the name that clients use; the factor is not applied to them.',
      additionalProperties: { ...priceShape, description: 'As the price of a model.' }
    }
  }
} as const satisfies OptionSchema

type CostEntry = OptionValue<typeof costShape>

/** The decimals of a factor. */
const decimals = 6
const one = 10n ** BigInt(decimals)
const mostFactor = 100n * one

/** What a model of a pattern costs, by the names that the public list may know it by, and by its prices. */
export type CostOf = (names: Names, prices: readonly PricePeriod[]) => readonly PricePeriod[] | undefined

/** The costs of all channels. Their entries need not be sound. */
export class Costs {
  readonly #entries: Readonly<Record<string, { readonly cost?: CostEntry | undefined }>>
  readonly #models: unknown
  readonly #report: Report

  /** `models`: the section of that name, which need not be sound either. */
  constructor(
    entries: Readonly<Record<string, { readonly cost?: CostEntry | undefined }>>,
    models: unknown,
    report: Report
  ) {
    this.#entries = entries
    this.#models = models
    this.#report = report
    for (const [name, entry] of Object.entries(entries)) if (isMap(entry)) this.#check(name, entry)
  }

  /** What a model costs at a channel, by date; undefined when the file says nothing of it. */
  of(channel: Channel, model: string, prices: readonly PricePeriod[]): readonly PricePeriod[] | undefined {
    const path = ['channels', channel.name, 'cost']
    const entry = this.#entries[channel.name]?.cost
    if (!entry || !this.#report.sound(...path)) return undefined
    const upstream = { name: channel.models.get(model)!, upstream: [model] }
    if (Object.hasOwn(entry.models, model))
      return readPrices([...path, 'models', model], entry.models[model], upstream, this.#report)
    if (entry.of === undefined) return undefined
    const base = entry.of === 'price' ? prices : readPrices([...path, 'of'], 'list', upstream, this.#report)
    return base && scaled(base, entry)
  }

  /** What the models of a pattern cost at its channel; one of which the public list says nothing is not known. */
  ofPattern(channel: Channel, pattern: string): CostOf {
    const path = ['channels', channel.name, 'cost']
    const report = this.#report
    const entry = this.#entries[channel.name]?.cost
    if (!entry || !report.sound(...path)) return () => undefined
    const own = Object.hasOwn(entry.models, pattern) ? entry.models[pattern] : undefined
    const ownPath = [...path, 'models', pattern]
    const fixed =
      own === undefined || own === 'list'
        ? undefined
        : readPrices(ownPath, own, { name: pattern, upstream: undefined }, report)
    if (fixed) return () => fixed
    return (names, prices) => {
      if (own !== undefined) return pricesIfListed(ownPath, names, report)
      if (entry.of === undefined) return undefined
      const base = entry.of === 'price' ? prices : pricesIfListed([...path, 'of'], names, report)
      return base && scaled(base, entry)
    }
  }

  #check(name: string, { cost, models }: { cost?: CostEntry | undefined; models?: unknown }): void {
    const report = this.#report
    const path = ['channels', name, 'cost']
    if (!cost || !report.sound(...path)) return
    if (cost.factor !== undefined) {
      if (cost.of === undefined) report.key([...path, 'factor'], 'of what? Say "of: list" or "of: price"')
      if (factorOf(cost) === undefined)
        report.value([...path, 'factor'], `must be at most 100, with at most ${decimals} decimals`)
    }
    const served = [...(isMap(models) ? Object.keys(models) : []), ...this.#patternsOf(name)]
    for (const model of Object.keys(cost.models)) {
      if (!served.includes(model))
        report.key([...path, 'models', model], `is not served here${suggestion(model, served)}`)
    }
  }

  #patternsOf(channel: string): string[] {
    const models = isMap(this.#models) ? Object.entries(this.#models) : []
    return models.flatMap(([name, entry]) =>
      name.endsWith('*') && isMap(entry) && entry['channel'] === channel ? [name] : []
    )
  }
}

function scaled(prices: readonly PricePeriod[], entry: CostEntry): readonly PricePeriod[] {
  const factor = factorOf(entry) ?? one
  return factor === one ? prices : prices.map(({ from, price }) => ({ from, price: times(price, factor) }))
}

function factorOf({ factor }: CostEntry): bigint | undefined {
  const exact = factor === undefined ? one : parseDollars(factor, decimals)
  return exact !== undefined && exact <= mostFactor ? exact : undefined
}

/** Multiplies all rates of a price, each rounded half up to a nano-dollar per million units. */
function times({ perMillion, tiers, pictures, services }: Price, factor: bigint): Price {
  const rates = (from: Rates): Rates =>
    Object.fromEntries(Object.entries(from).map(([name, rate]) => [name, (rate * factor + one / 2n) / one]))
  const price = versioned({
    perMillion: rates(perMillion),
    ...(tiers && { tiers: tiers.map(({ above, perMillion: own }) => ({ above, perMillion: rates(own) })) })
  })
  return {
    ...price,
    ...(pictures && { pictures: pictures.map((picture) => ({ ...picture, price: times(picture.price, factor) })) }),
    ...(services && { services: new Map([...services].map(([name, own]) => [name, times(own, factor)])) })
  }
}
