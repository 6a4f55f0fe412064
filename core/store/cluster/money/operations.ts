// What the ledger of a node asks the database for: admissions, progress of holds, and their ends.
import type { Price } from '../../../money/price.ts'
import type { Scope } from '../../../catalogue/caller.ts'
import type { Hold } from '../../embedded/balance/hold.ts'
import type { Value } from '../../embedded/files/sqlite.ts'
import type { Plan } from './plan.ts'

/**
 * Why a hold was refused: a budget cannot carry it (`at` counts its plan's limits from 0), no balance can, or its name
 * is `taken` by an open hold.
 */
export interface Refusal {
  readonly taken: boolean
  readonly at: number | undefined
  /** Posted and used of the budgets of the plan, as the batch left them. */
  readonly sums: readonly { readonly posted: bigint; readonly used: bigint }[]
}

/** A hold that is asked for. */
export interface Admission {
  readonly hold: Hold
  readonly plan: Plan
  /** The database has it. `cells`: the ids of the balances that it counts in. */
  admitted(cells: readonly bigint[]): void
  refused(refusal: Refusal): void
  /**
   * The database cannot decide at present. `dropped`: it will not be asked any more; else what it says later no longer
   * matters to the caller. May be called again.
   */
  failed(error: Error, dropped: boolean): void
}

/** The end of a hold. */
export interface End {
  readonly requestId: string
  readonly part: string
  readonly cells: readonly bigint[]
  readonly held: bigint
  readonly charged: bigint
  /** For the journal: flat, in the columns of an entry. */
  readonly entries: readonly Value[]
  /** The scopes whose thresholds it may reach, and the time of its windows. */
  readonly scopes: () => readonly Scope[]
  readonly time: number
  /** It is durable, in the database or in this node's own log. Called at least once. */
  done(): void
  /** Nobody waits for it any longer; it is written all the same. */
  failed(error: Error): void
}

/** Progress of a hold: an upstream was asked, or it is to outlive its process. */
export interface Touch {
  readonly hold: Hold
  /** Until when a hold is kept that is detached; undefined for mere progress. */
  readonly until: number | undefined
  done(): void
  failed(error: Error): void
}

/** What waits for the next batch, in the order in which it came. */
export class Queue {
  readonly admissions: Admission[] = []
  readonly ends: End[] = []
  readonly touches: Touch[] = []
  readonly prices: Price[] = []

  get size(): number {
    return this.admissions.length + this.ends.length + this.touches.length + this.prices.length
  }

  /** Takes out as much as one batch may have. */
  take(most: number): Queue {
    const taken = new Queue()
    for (const kind of ['admissions', 'ends', 'touches', 'prices'] as const)
      taken[kind].push(...(this[kind].splice(0, most) as never[]))
    return taken
  }

  /** Puts back in front what could not be asked for. */
  putBack({ admissions, ends, touches, prices }: Queue): void {
    this.admissions.unshift(...admissions)
    this.ends.unshift(...ends)
    this.touches.unshift(...touches)
    this.prices.unshift(...prices)
  }
}
