// Prices as the admin API shows them, and the versions that a model has had: by gateway.yaml, and by the ledger.
import type { Model } from '../../catalogue/catalogue.ts'
import { pricedClasses } from '../../money/classes.ts'
import { formatDollars } from '../../money/money.ts'
import { inForce, isFree } from '../../money/price.ts'
import type { Price, Rates } from '../../money/price.ts'
import { allSums } from './sums.ts'
import type { Spend } from './sums.ts'

/** Shows a price. Classes that inherit the price of another have it here. */
export function showPrice({ version, perMillion, tiers = [], pictures = [], services = new Map() }: Price): object {
  return {
    version,
    free: isFree({ perMillion }),
    usd_per_million: showRates(perMillion),
    tiers: tiers.map((tier) => ({ above: tier.above, usd_per_million: showRates(tier.perMillion) })),
    pictures: pictures.map(({ size = null, quality = null, price }) => ({
      size,
      quality,
      version: price.version,
      usd_per_million: showRates(price.perMillion)
    })),
    service_tiers: [...services].map(([name, price]) => ({
      name,
      version: price.version,
      usd_per_million: showRates(price.perMillion)
    }))
  }
}

/** Rates in US dollars for 1,000,000 units, by class. */
export function showRates(rates: Rates): Record<string, string> {
  return Object.fromEntries(
    pricedClasses.flatMap((name) => (rates[name] === undefined ? [] : [[name, formatDollars(rates[name])]]))
  )
}

/** The price in force now, and the next that will be; null where there is none. */
export function presentPrices({ prices }: Model, now = Date.now()): { price: object | null; next: object | null } {
  const present = inForce(prices, now)
  const next = prices.find(({ from }) => from > now)
  return {
    price: present ? { from: showFrom(present.from), ...showPrice(present.price) } : null,
    next: next ? { from: showFrom(next.from), ...showPrice(next.price) } : null
  }
}

function showFrom(from: number): string | null {
  return from === -Infinity ? null : new Date(from).toISOString()
}

/** One version of the prices of a model. */
interface Version {
  readonly price: Price | undefined
  /** Where the file has it: `price`, `pictures 1024x1024 hd`, `service tier flex`; undefined when it is not there. */
  readonly as: string | undefined
  readonly from: number | undefined
  readonly until: number | undefined
}

/**
 * `mine`: whether what was charged for this name belongs to the model.
 *
 * All versions of the prices of a model: those of the file, by date, and those that were charged by, as the ledger
 * keeps them. Newest first: what is to come, what is in force, and what was used last.
 */
export async function priceHistory(
  model: Model,
  { tenant, mine }: { tenant: string | undefined; mine(name: string): boolean },
  spend: Spend,
  find: (version: string) => Price | undefined
): Promise<object[]> {
  // Of a pattern, all its models were charged by its price.
  const several = model.name === model.pattern
  const equal = { ...(!several && { model: model.name }), ...(tenant !== undefined && { tenant }) }
  const { sums } = await allSums(spend, { by: several ? ['price', 'day', 'model'] : ['price', 'day'], equal })
  const used = new Map<string, { first: string; last: string; requests: number; charge: bigint }>()
  for (const { group, requests, charge } of sums) {
    const [version = '', day = '', name = model.name] = group
    if (!mine(name)) continue
    const known = used.get(version)
    used.set(version, {
      first: known && known.first < day ? known.first : day,
      last: known && known.last > day ? known.last : day,
      requests: (known?.requests ?? 0) + requests,
      charge: (known?.charge ?? 0n) + charge
    })
  }
  const versions = inFile(model)
  for (const version of used.keys())
    if (version !== '' && !versions.has(version))
      versions.set(version, { price: find(version), as: undefined, from: undefined, until: undefined })
  const rows = [...versions].map(([version, { price, as, from, until }]) => {
    const charged = used.get(version)
    return {
      rank: from ?? (charged ? Date.parse(charged.last) : -Infinity),
      shown: {
        version,
        in_file: as ?? null,
        from: from === undefined ? null : showFrom(from),
        until: until === undefined ? null : showFrom(until),
        first_charged: charged?.first ?? null,
        last_charged: charged?.last ?? null,
        requests: charged?.requests ?? 0,
        charge_usd: formatDollars(charged?.charge ?? 0n),
        charge_nano: String(charged?.charge ?? 0n),
        price: price ? showPrice(price) : null
      }
    }
  })
  const fileFirst = (row: (typeof rows)[number]): number => (row.shown.in_file === null ? 1 : 0)
  return rows.sort((a, b) => fileFirst(a) - fileFirst(b) || b.rank - a.rank).map(({ shown }) => shown)
}

function inFile({ prices }: Model): Map<string, Version> {
  const versions = new Map<string, Version>()
  const add = (price: Price, as: string, from: number, until: number | undefined): void => {
    if (!versions.has(price.version)) versions.set(price.version, { price, as, from, until })
  }
  for (const [index, { from, price }] of prices.entries()) {
    const until = prices[index + 1]?.from
    add(price, 'price', from, until)
    for (const picture of price.pictures ?? [])
      add(picture.price, `pictures ${[picture.size, picture.quality].filter(Boolean).join(' ')}`, from, until)
    for (const [name, service] of price.services ?? []) add(service, `service tier ${name}`, from, until)
  }
  return versions
}
