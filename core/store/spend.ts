// The interface of spend: what was charged and what it cost, added up by day, caller, model and channel.
import type { Nano } from '../money/money.ts'
import type { PricedClass } from '../money/classes.ts'

/** What spend can be told apart by: these, and `tag:<name>` for one tag. `tag` is all tags together. */
export const spendGroups = ['tenant', 'project', 'member', 'key', 'model', 'channel', 'tag', 'day', 'month'] as const
/** The versions of the prices, by which exports name what an amount follows from. */
export const priceGroups = ['price', 'cost_price'] as const

/** A name of {@link spendGroups} or {@link priceGroups}, or `tag:<name>`. */
export type SpendGroup = (typeof spendGroups)[number] | (typeof priceGroups)[number] | `tag:${string}`

/** What spend can be limited to, each to one value. */
export const spendFilters = ['tenant', 'project', 'member', 'key', 'model', 'channel'] as const

/** A query of the sums. All conditions hold together. */
export interface SpendQuery {
  /** In the order in which the sums are sorted. None: one sum of everything. */
  by: readonly SpendGroup[]
  equal: Readonly<Partial<Record<(typeof spendFilters)[number], string>>>
  tag?: { name: string; value: string } | undefined
  /** Days since 1970 in UTC. `since` is included, `until` is not. */
  since?: number | undefined
  until?: number | undefined
  limit: number
  /** The group of the last sum of the page before. */
  after?: readonly string[] | undefined
}

/** The sum of one group. */
export interface SpendSum {
  /** In the order of `by`; empty where there is none: a key without a project. */
  group: readonly string[]
  /** The requests that ended, those that were not charged too. */
  requests: number
  /** What customers were charged. */
  charge: Nano
  /** What upstreams charge, as far as it is known, failed attempts included; undefined when nothing of it is known. */
  cost: Nano | undefined
  /** The part of the charge whose cost is not known. */
  uncosted: Nano
  /** What failed attempts would have cost the customers, who are not charged for them. */
  failed: Nano
  /** The units that were charged, by class; those of `reasoning` are in `output` too. */
  usage: Readonly<Partial<Record<PricedClass | 'reasoning', number>>>
}

/** Some of the sums. `next` is the `after` of the next page; undefined on the last one. */
export interface SpendPage {
  sums: SpendSum[]
  next: readonly string[] | undefined
}
