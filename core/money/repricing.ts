// What usage that was added up would have cost at another price, and how much of that sums cannot tell.
import { pricedClasses } from './classes.ts'
import type { PricedClass } from './classes.ts'
import { isFree, rounded } from './price.ts'
import type { Price, Rates } from './price.ts'
import type { Nano } from './money.ts'

/** Requests that were settled at one price, added up. */
export interface Traffic {
  readonly requests: number
  /** What was charged for them. */
  readonly charge: Nano
  /** Units by class. */
  readonly usage: Readonly<Partial<Record<PricedClass | 'reasoning', number>>>
  /** The price that they were settled at; undefined when it is not known any more. */
  readonly price: Price | undefined
}

/** A class of the traffic, at the other price. */
export interface RepricedLine {
  readonly class: PricedClass
  readonly units: number
  /** Nano-dollars for 1,000,000 units; undefined when the price has none. */
  readonly perMillion: Nano | undefined
}

/**
 * Why a result is not exact. `rounding`: a unit costs a part of a nano-dollar, and each request is rounded. `unpriced`:
 * the price has nothing for units of this class, which count as free. `calls`: how many calls were charged is not
 * known. `prompt_length` and `pictures`: the price depends on the length of a prompt, or on the kind of picture.
 */
export type Doubt =
  | { readonly why: 'rounding' | 'calls' | 'prompt_length' | 'pictures' }
  | { readonly why: 'unpriced'; readonly class: PricedClass; readonly units: number }

/** What traffic would have cost. `least` and `most` are the same as `amount` when there is no doubt. */
export interface Repriced {
  readonly amount: Nano
  readonly least: Nano
  readonly most: Nano
  readonly lines: readonly RepricedLine[]
  readonly doubts: readonly Doubt[]
}

const million = 1_000_000n

/**
 * Computes what traffic would have cost at a price. Without doubts it is what settling each request at that price comes
 * to, to the nano-dollar: a unit then costs whole nano-dollars, so that nothing was rounded.
 */
export function reprice(traffic: readonly Traffic[], price: Price): Repriced {
  const units = unitsOf(traffic)
  const requests = traffic.reduce((sum, one) => sum + BigInt(one.requests), 0n)
  const doubts: Doubt[] = []
  const { perMillion: rates } = price
  let [least, amount, most] = [0n, 0n, 0n]
  const lines: RepricedLine[] = []
  for (const name of pricedClasses) {
    const counted = units.get(name) ?? 0
    if (counted === 0 || name === 'request') continue
    const perMillion = rates[name]
    lines.push({ class: name, units: counted, perMillion })
    if (perMillion === undefined && !isFree(price)) doubts.push({ why: 'unpriced', class: name, units: counted })
    const possible = ratesFor(name, price)
    const many = BigInt(counted)
    amount += many * (perMillion ?? 0n)
    least += many * smallest(possible)
    most += many * largest(possible)
  }
  if (
    price.tiers &&
    lines.some(({ class: name }) =>
      differs(
        name,
        price.tiers!.map(({ perMillion }) => perMillion),
        rates
      )
    )
  )
    doubts.push({ why: 'prompt_length' })
  if (price.pictures && units.has('image')) doubts.push({ why: 'pictures' })
  const calls = callsOf(traffic)
  if (rates.request !== undefined && requests > 0n) {
    lines.push({ class: 'request', units: calls.likely, perMillion: rates.request })
    amount += BigInt(calls.likely) * rates.request
    least += BigInt(calls.known) * rates.request
    most += BigInt(calls.likely) * rates.request
    if (calls.known !== calls.likely) doubts.push({ why: 'calls' })
  }
  const parts = lines.some((line) => ratesFor(line.class, price).some((rate) => rate % million !== 0n))
  if (parts) doubts.push({ why: 'rounding' })
  // Each request is rounded by half a nano-dollar at most.
  const slack = parts ? (requests * million) / 2n : 0n
  return {
    amount: rounded(amount),
    least: atLeast(least - slack),
    most: (most + slack) / million,
    lines,
    doubts
  }
}

/** The rates that a class may have: usually one; more where they depend on what sums do not show. */
function ratesFor(name: PricedClass, { perMillion, tiers = [], pictures = [] }: Price): readonly bigint[] {
  const others: readonly Rates[] = [
    ...tiers.map((tier) => tier.perMillion),
    ...(name === 'image' ? pictures.map((picture) => picture.price.perMillion) : [])
  ]
  return [perMillion, ...others].map((rates) => rates[name] ?? 0n)
}

function differs(name: PricedClass, others: readonly Rates[], rates: Rates): boolean {
  return others.some((other) => (other[name] ?? 0n) !== (rates[name] ?? 0n))
}

function unitsOf(traffic: readonly Traffic[]): Map<PricedClass, number> {
  const units = new Map<PricedClass, number>()
  for (const { usage } of traffic)
    for (const name of pricedClasses) {
      const counted = usage[name]
      if (counted) units.set(name, (units.get(name) ?? 0) + counted)
    }
  return units
}

/**
 * How many calls were charged: as counted where the price had a rate for them. Elsewhere nobody counted, and all
 * requests that ended are likely, those that used nothing too.
 */
function callsOf(traffic: readonly Traffic[]): { known: number; likely: number } {
  let [known, likely] = [0, 0]
  for (const { price, requests, usage } of traffic) {
    const counted = price?.perMillion.request === undefined ? undefined : (usage.request ?? 0)
    known += counted ?? 0
    likely += counted ?? requests
  }
  return { known, likely }
}

function atLeast(sum: bigint): Nano {
  return sum <= 0n ? 0n : (sum + million - 1n) / million
}

function smallest(values: readonly bigint[]): bigint {
  return values.reduce((one, other) => (other < one ? other : one))
}

function largest(values: readonly bigint[]): bigint {
  return values.reduce((one, other) => (other > one ? other : one))
}
