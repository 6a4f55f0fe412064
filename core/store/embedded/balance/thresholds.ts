// The thresholds of budgets: each is told once when so much of the budget was charged in its window.
import type { Budget, Scope } from '../../../catalogue/caller.ts'
import type { BudgetReached, BudgetWatcher } from '../../ledger.ts'

/** What was charged of a budget: the balance of its window, or the sum of the hours that end with `last`. */
interface Charged {
  readonly posted: bigint
  readonly last?: number
  readonly dropped?: boolean
}

/** The thresholds of one budget in one window. */
export class Watch {
  readonly #of: Omit<BudgetReached, 'threshold' | 'limit' | 'posted'>
  readonly #watcher: BudgetWatcher
  /** What counts: of a rolling budget the sum of the latest hours, whichever hour a charge is of. */
  #charged: Charged = { posted: 0n }
  /** Of which configuration the limit and the thresholds are. */
  #generation = 0
  #limit = 0n
  /** In percent, ascending, each with what has to be charged for it, in nano-dollars. */
  #thresholds: readonly { readonly percent: number; readonly amount: bigint }[] = []
  /** The highest threshold that was told; 0 for none. */
  #told: number

  constructor({ id: scope, kind: level }: Scope, per: Budget['per'], window: string, watcher: BudgetWatcher) {
    this.#of = { scope, level, per, window }
    this.#watcher = watcher
    this.#told = watcher.told(this.#of)
  }

  get window(): string {
    return this.#of.window
  }

  /**
   * Takes over a budget of a scope as it may have changed, and what was charged, unless they are of an earlier
   * configuration or hour: requests that came then are still admitted. Thresholds that are not reached any more,
   * because the limit was raised or hours have gone, are told again when they are.
   */
  arm({ generation = 0 }: Scope, { limit, alerts = [] }: Budget, charged: Charged): void {
    if (generation >= this.#generation) {
      this.#generation = generation
      this.#limit = limit
      // A budget of nothing refuses from the start, and nobody needs to be told that it is used up.
      const used = limit === 0n ? [] : alerts
      this.#thresholds = used.map((percent) => ({ percent, amount: amountOf(percent, limit) }))
    }
    const { last = 0, dropped = false } = this.#charged
    if ((charged.last ?? 0) >= last || dropped) this.#charged = charged
    const { posted } = this.#charged
    const reached = this.#thresholds.findLast(({ amount }) => posted >= amount)
    this.#told = Math.min(this.#told, reached?.percent ?? 0)
  }

  /** Tells all thresholds that were reached. */
  check(): void {
    const { posted } = this.#charged
    for (const { percent, amount } of this.#thresholds) {
      if (posted < amount) return
      if (percent <= this.#told) continue
      // One that could not be told is told with the next charge.
      if (!this.#watcher.reached({ ...this.#of, threshold: percent, limit: this.#limit, posted })) return
      this.#told = percent
    }
  }
}

/** Rounded up, so that it is reached when so many percent are. */
function amountOf(percent: number, limit: bigint): bigint {
  return (limit * BigInt(percent) + 99n) / 100n
}
