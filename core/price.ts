// What a model's usage costs: exact integer prices, one rounding per request.
import { pricedClasses } from './usage.ts'
import type { PricedClass, Usage } from './usage.ts'
import type { Nano } from './money.ts'

/**
 * Prices of one model as snapshotted by a reservation: nano-dollars per 1,000,000 units of each class, so that
 * `$1.25 / 1M tokens` is `1_250_000_000n`. `version` names the snapshot in the journal; equal prices share a version.
 */
export interface Price {
  version: string
  perMillion: Readonly<Partial<Record<PricedClass, bigint>>>
}

const million = 1_000_000n

/** Cost of a usage, rounded half up to the nano-dollar, once. Classes without a price of their own cost nothing. */
export function costOf(usage: Readonly<Usage>, price: Price): Nano {
  let sum = 0n
  for (const name of pricedClasses) {
    const units = usage[name]
    const rate = price.perMillion[name]
    if (units && rate) sum += BigInt(units) * rate
  }
  return (sum + million / 2n) / million
}

/** A price's rates as JSON, classes in a fixed order: equal prices render equal. Rates are decimal strings. */
export function renderPrice({ perMillion }: Price): string {
  const rates = pricedClasses.flatMap((name) => (perMillion[name] === undefined ? [] : [[name, String(perMillion[name])] as const]))
  return JSON.stringify(Object.fromEntries(rates))
}

/** The price that {@link renderPrice} rendered. */
export function parsePrice(version: string, json: string): Price {
  const rates = Object.entries(JSON.parse(json) as Record<string, string>)
  return { version, perMillion: Object.fromEntries(rates.map(([name, rate]) => [name, BigInt(rate)])) }
}
