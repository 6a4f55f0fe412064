// How a store is that each thread has for itself: the worst of what they say, and what they have done together.
import type { StoreHealth, StoreTrouble } from '../store/store.ts'

/** What is counted, and stays in the sums when a thread has ended. */
const counters = ['failures', 'commits', 'operations', 'commitSeconds'] as const
/** What is as it is now. */
const gauges = ['queued', 'queuedBytes'] as const

/** What threads have counted that have ended. */
export type Counted = Readonly<Record<(typeof counters)[number], number>>

export const nothingCounted: Counted = { failures: 0, commits: 0, operations: 0, commitSeconds: 0 }

/** Adds up what is counted. */
export function countedBy(...all: readonly Counted[]): Counted {
  return summed(counters, all)
}

/**
 * Puts together how threads have the store. Of a trouble of several the one is shown that refuses, or that began first.
 * Records that were dropped are those of `own`: each thread counts them in its metrics.
 */
export function joinedStoreHealth(own: StoreHealth, others: readonly StoreHealth[], ended: Counted): StoreHealth {
  const all = [own, ...others]
  const troubles = new Map<string, StoreTrouble>()
  const inOrder = all
    .flatMap((one) => one.troubles)
    .toSorted((one, other) => Number(other.refuses) - Number(one.refuses) || one.since - other.since)
  for (const trouble of inOrder) if (!troubles.has(trouble.ailment)) troubles.set(trouble.ailment, trouble)
  return {
    ...own,
    healthy: all.every(({ healthy }) => healthy),
    lastError: all.find(({ lastError }) => lastError !== undefined)?.lastError,
    troubles: [...troubles.values()],
    ...countedBy(ended, ...all),
    ...summed(gauges, all)
  }
}

function summed<Name extends string>(
  names: readonly Name[],
  all: readonly Readonly<Record<Name, number>>[]
): Record<Name, number> {
  const sumOf = (name: Name): number => all.reduce((sum, one) => sum + one[name], 0)
  return Object.fromEntries(names.map((name) => [name, sumOf(name)])) as Record<Name, number>
}
