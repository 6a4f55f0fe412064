// A hold of this node that has not ended, and its name.
import type { Scope } from '../../../../catalogue/caller.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import type { Entered } from '../../../embedded/book/hold-table.ts'
import type { Place } from '../balances/plan.ts'
import type { EarlyHold } from './early.ts'

/** A hold that has not ended, with what its end takes. */
export interface Live extends Entered {
  readonly hold: Hold
  readonly places: readonly Place[]
  readonly scopes: () => readonly Scope[]
  /** Of one that was admitted in memory: until the database has it, or never will. */
  early: EarlyHold | undefined
  /** Whether the database has had it. */
  written: boolean
  /** Whether another node has ended it, or it was not written in time, as this node was not heard of for its lease. */
  lost: boolean
}

/** The name of a hold within a node. */
export function nameOf(requestId: string, part: string): string {
  return part === '' ? requestId : `${requestId} ${part}`
}
