// What a model's usage costs: exact integer prices, one rounding per request.
import { priceClasses, pricedClasses } from './classes.ts'
import { promptTokens } from './usage.ts'
import type { Counter, PricedClass } from './classes.ts'
import type { Usage } from './usage.ts'
import type { Nano } from './money.ts'

/** Nano-dollars per 1,000,000 units of each class, so that `$1.25 / 1M tokens` is `1_250_000_000n`. */
export type Rates = Readonly<Partial<Record<PricedClass, bigint>>>

/** What requests with a long prompt cost. */
export interface Tier {
  /** The rates hold for prompts of more tokens than this. */
  above: number
  /** All rates of the tier, also those that are the same as without it. */
  perMillion: Rates
}

/**
 * Prices of one model as snapshotted by a reservation. `version` names the snapshot in the journal; equal prices share
 * a version.
 */
export interface Price {
  version: string
  perMillion: Rates
  /**
   * The tiers, those for the shortest prompts first. The last tier that the prompt is above holds for the whole
   * request. When there is none, `perMillion` holds.
   */
  tiers?: readonly Tier[]
  /** Prices that replace this one for some pictures. One is chosen before the hold; they are not in the snapshot. */
  pictures?: readonly PicturePrice[]
  /** Prices that replace this one for requests of a service tier, by its name. They are not in the snapshot either. */
  services?: ReadonlyMap<string, Price>
}

/** The price of a request for pictures of this size and quality. An undefined one matches all. */
export interface PicturePrice {
  size: string | undefined
  quality: string | undefined
  price: Price
}

/** A price with the time from when it is in force, until the next one is. */
export interface PricePeriod {
  /** Unix milliseconds; -Infinity when it always was. */
  from: number
  price: Price
}

/**
 * Of several prices of a model, or of what follows from them, the one in force at a time in Unix milliseconds;
 * undefined before the first.
 */
export function inForce<T extends { readonly from: number }>(periods: readonly T[], time: number): T | undefined {
  for (let i = periods.length - 1; i >= 0; i--) if (periods[i]!.from <= time) return periods[i]
  return undefined
}

/** A price without rates. Its charges are journalled like any other, with the amount 0. */
export const freePrice: Price = { version: 'free', perMillion: {} }

const million = 1_000_000n
const half = million / 2n

/** Cost of a usage, rounded half up to the nano-dollar, once. Classes without a price of their own cost nothing. */
export function costOf(usage: Readonly<Usage>, price: Price): Nano {
  const rates = ratesOf(usage, price)
  let sum = 0n
  // A usage has few classes of the many that there are. Reasoning is none, and has no rate.
  for (const name in usage) {
    const units = usage[name as PricedClass]
    if (units) sum += BigInt(units) * (rates[name as PricedClass] ?? 0n)
  }
  return rounded(sum)
}

/** Whether a price has no rates. */
export function isFree({ perMillion }: Pick<Price, 'perMillion'>): boolean {
  return pricedClasses.every((name) => perMillion[name] === undefined)
}

/** Whether a class of these counters has a rate. A free price needs none. */
export function isPriced({ perMillion }: Price, countedBy: readonly Counter[]): boolean {
  let free = true
  for (const name of pricedClasses) {
    if (perMillion[name] === undefined) continue
    if (countedBy.includes(priceClasses[name].countedBy)) return true
    free = false
  }
  return free
}

/** The usage of one request with the request itself, which is a unit of its own where the price has one for it. */
export function withCall(usage: Readonly<Usage>, { perMillion }: Price): Usage {
  return perMillion.request === undefined ? { ...usage } : { ...usage, request: 1 }
}

/** A class that was paid for. */
export interface CostLine {
  class: PricedClass
  units: number
  /** Nano-dollars for 1,000,000 units. */
  perMillion: Nano
}

/** How a cost came about: Σ units × rate ÷ 1,000,000, rounded half up once, is {@link costOf}. */
export function costLines(usage: Readonly<Usage>, price: Price): CostLine[] {
  const rates = ratesOf(usage, price)
  return pricedClasses.flatMap((name) => {
    const [units, perMillion] = [usage[name], rates[name]]
    return units && perMillion ? [{ class: name, units, perMillion }] : []
  })
}

/** An amount of a million times as many units, rounded half up to the nano-dollar. */
export function rounded(sum: bigint): Nano {
  return (sum + half) / million
}

function ratesOf(usage: Readonly<Usage>, { perMillion, tiers }: Price): Rates {
  return (tiers && tierOf(usage, tiers)) ?? perMillion
}

function tierOf(usage: Readonly<Usage>, tiers: readonly Tier[]): Rates | undefined {
  const length = promptTokens(usage)
  let rates: Rates | undefined
  for (const { above, perMillion } of tiers) if (length > above) rates = perMillion
  return rates
}

/**
 * A price as JSON, `{"<class>": "<rate>", …, "tiers": [{"above": "<tokens>", "<class>": "<rate>", …}]}`, classes in a
 * fixed order: equal prices render equal. Numbers are decimal strings.
 */
export function renderPrice({ perMillion, tiers = [] }: Price): string {
  const rendered = tiers.map((tier) => ({ above: String(tier.above), ...renderRates(tier.perMillion) }))
  return JSON.stringify({ ...renderRates(perMillion), ...(tiers.length > 0 && { tiers: rendered }) })
}

function renderRates(rates: Rates): Record<string, string> {
  return Object.fromEntries(
    pricedClasses.flatMap((name) => (rates[name] === undefined ? [] : [[name, String(rates[name])]]))
  )
}

/** The price that {@link renderPrice} rendered. */
export function parsePrice(version: string, json: string): Price {
  const { tiers, ...rates } = JSON.parse(json) as {
    tiers?: { above: string; [name: string]: string }[]
    [name: string]: unknown
  }
  const price = { version, perMillion: parseRates(rates) }
  return tiers
    ? { ...price, tiers: tiers.map(({ above, ...own }) => ({ above: Number(above), perMillion: parseRates(own) })) }
    : price
}

function parseRates(rates: Record<string, unknown>): Rates {
  return Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, BigInt(rate as string)]))
}
