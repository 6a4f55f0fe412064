// The thresholds of budgets: each is told once when so much of the budget was charged in its window.
import type { Budget, Scope } from '../../../catalogue/caller.ts'
import type { BudgetReached, BudgetWatcher } from '../../ledger.ts'

/** What was charged of a budget: the balance of its window, or the sum of the hours that end with `last`. */
interface Charged {
  readonly posted: bigint
  readonly last?: number
  readonly dropped?: boolean
}

/** Greater than what any balance can have. */
const never = 2n ** 64n

/** The thresholds of one budget in one window. */
export class Watch {
  /** What has to be charged for the next threshold, in nano-dollars. */
  #due = never
  readonly #of: Omit<BudgetReached, 'threshold' | 'limit' | 'posted'>
  readonly #watcher: BudgetWatcher
  /** What counts: of a rolling budget the sum of the latest hours, whichever hour a charge is of. */
  #charged: Charged = { posted: 0n }
  /** Of which configuration the limit and the thresholds are. */
  #generation = 0
  #limit = 0n
  /** In percent, ascending. */
  #thresholds: readonly number[] = []
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
      this.#thresholds = limit === 0n ? [] : alerts
    }
    const { last = 0, dropped = false } = this.#charged
    if ((charged.last ?? 0) >= last || dropped) this.#charged = charged
    const { posted } = this.#charged
    const reached = this.#thresholds.findLast((percent) => posted >= this.#amountOf(percent)) ?? 0
    this.#told = Math.min(this.#told, reached)
    this.#next()
  }

  /** Tells all thresholds that were reached. */
  check(): void {
    const { posted } = this.#charged
    if (posted < this.#due) return
    for (const threshold of this.#thresholds) {
      if (threshold <= this.#told || posted < this.#amountOf(threshold)) continue
      // One that could not be told is told with the next charge.
      if (!this.#watcher.reached({ ...this.#of, threshold, limit: this.#limit, posted })) return
      this.#told = threshold
    }
    this.#next()
  }

  #next(): void {
    const next = this.#thresholds.find((percent) => percent > this.#told)
    this.#due = next === undefined ? never : this.#amountOf(next)
  }

  /** Rounded up, so that it is reached when so many percent are. */
  #amountOf(percent: number): bigint {
    return (this.#limit * BigInt(percent) + 99n) / 100n
  }
}
