// The verdict on a ledger that was verified: what became of each invariant, and how far balances are off.
import { invariants } from './invariants.ts'
import type { Invariant } from './invariants.ts'
import type { Breach, InvariantName } from './invariants.ts'

/**
 * The result for one invariant. `tested`: a file cannot show it, and the tests prove it. `unchecked`: it is about what
 * this store does not have.
 */
export interface Outcome {
  name: string
  text: string
  result: 'holds' | 'broken' | 'tested' | 'unchecked'
  breaches: number
  /** The first row that breaks it; null when none does. */
  first: string | null
  tests: readonly string[]
}

/** The result for every invariant, in order. `looked`: those that were checked. Default: all that a file can show. */
export function outcomesOf(breaches: readonly Breach[], looked?: ReadonlySet<InvariantName>): Outcome[] {
  return Object.entries<Invariant>(invariants).map(([name, { text, checked, tests }]) => {
    const broken = breaches.filter(({ invariant }) => invariant === name)
    const sound = !checked ? 'tested' : (looked?.has(name as InvariantName) ?? true) ? 'holds' : 'unchecked'
    return {
      name,
      text,
      result: broken.length > 0 ? 'broken' : sound,
      breaches: broken.length,
      first: broken[0]?.row ?? null,
      tests
    }
  })
}

/** By how many nano-dollars balances differ from what the journal and the open holds make, all of them together. */
export function driftOf(breaches: readonly Breach[]): bigint {
  return breaches.reduce((sum, { drift_nano: off }) => sum + BigInt(off ?? 0), 0n)
}
