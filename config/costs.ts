// What the upstreams charge the operator: `cost` of a channel, beside the prices that customers are charged.
import { parseDollars } from '../core/money/money.ts'
import { isMap } from '../core/options/schema-check.ts'
import { suggestion } from '../core/options/suggest.ts'
import { modelNames } from './names.ts'
import { priceShape, readPrices, versioned } from './prices.ts'
import type { Channel } from '../core/catalogue/catalogue.ts'
import type { Price, PricePeriod, Rates } from '../core/money/price.ts'
import type { OptionSchema, OptionValue } from '../core/options/schema.ts'
import type { Report } from './report.ts'

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
      propertyNames: modelNames,
      description: 'What single models cost, by the name that clients use; the factor is not applied to them.',
      additionalProperties: { ...priceShape, description: 'As the price of a model.' }
    }
  }
} as const satisfies OptionSchema

type CostEntry = OptionValue<typeof costShape>

/** The decimals of a factor. */
const decimals = 6
const one = 10n ** BigInt(decimals)
const mostFactor = 100n * one

/** The costs of all channels. Their entries need not be sound. */
export class Costs {
  readonly #entries: Readonly<Record<string, { readonly cost?: CostEntry | undefined }>>
  readonly #report: Report

  constructor(entries: Readonly<Record<string, { readonly cost?: CostEntry | undefined }>>, report: Report) {
    this.#entries = entries
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
    const factor = factorOf(entry) ?? one
    return factor === one ? base : base?.map(({ from, price }) => ({ from, price: times(price, factor) }))
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
    if (!isMap(models)) return
    for (const model of Object.keys(cost.models)) {
      if (!Object.hasOwn(models, model))
        report.key([...path, 'models', model], `is not served here${suggestion(model, Object.keys(models))}`)
    }
  }
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
