// Typed places on an exchange: what one plugin fills and others read.
import type { Usage } from '../money/usage.ts'
import type { Caller } from '../catalogue/caller.ts'

/** A typed key. `index` is its place in the exchange's array, so a read costs an array load. */
export interface Slot<T> {
  readonly name: string
  readonly index: number
  /** Phantom: carries the type only. */
  readonly type?: T
}

const slots: Slot<unknown>[] = []

/** Declares a slot, once, at module load; names are unique in a process. */
export function slot<T>(name: string): Slot<T> {
  if (slots.some((other) => other.name === name)) throw new Error(`slot ${name} is declared twice`)
  const made: Slot<T> = { name, index: slots.length }
  slots.push(made)
  return made
}

/** Who is asking: filled by `auth` before the body is read. */
export const caller = slot<Caller>('caller')

/** What the exchange consumed: filled by `usage-meter` when the upstream's answer ends, also when it is cut short. */
export const usage = slot<MeteredUsage>('usage')

/** Usage with its origin: `upstream` is the provider's own final count, the others are labelled estimates. */
export interface MeteredUsage {
  usage: Usage
  source: 'upstream' | 'partial' | 'estimated'
}

/** What the customer was charged: filled by `quota` when it settles; absent when nothing was reserved. */
export const charge = slot<Charge>('charge')

/** A settled charge with its arithmetic. */
export interface Charge {
  amount: bigint
  /** The reservation it replaced. */
  reserved: bigint
  priceVersion: string
  /** What the amount is the price of: the exchange's usage, unless that could not be true. */
  usage: Usage
  source: MeteredUsage['source'] | 'recovered' | 'manual'
}
