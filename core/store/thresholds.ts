// The thresholds of budgets: each is told once when so much of the budget was charged in its window.
import type { Budget, Scope } from '../catalogue/caller.ts'
import type { BudgetReached, BudgetWatcher } from './ledger.ts'

/** Greater than what any balance can have. */
const never = 2n ** 64n

/** The thresholds of one budget in one window. */
export class Watch {
  /** What has to be charged for the next threshold, in nano-dollars. It is asked after each charge. */
  due = never
  readonly #of: Omit<BudgetReached, 'threshold' | 'limit' | 'posted'>
  readonly #watcher: BudgetWatcher
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
   * Takes over a limit that may have changed. Thresholds that what was charged does not reach any more, because the
   * limit was raised or hours have gone, are told again when it does.
   */
  arm({ limit, alerts = [] }: Budget, posted: bigint): void {
    this.#limit = limit
    // A budget of nothing refuses from the start, and nobody needs to be told that it is used up.
    this.#thresholds = limit === 0n ? [] : alerts
    const reached = this.#thresholds.findLast((percent) => posted >= this.#amountOf(percent)) ?? 0
    this.#told = Math.min(this.#told, reached)
    this.#next()
  }

  /** Tells all thresholds that a charge has reached. */
  check(posted: bigint): void {
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
    this.due = next === undefined ? never : this.#amountOf(next)
  }

  /** Rounded up, so that it is reached when so many percent are. */
  #amountOf(percent: number): bigint {
    return (this.#limit * BigInt(percent) + 99n) / 100n
  }
}
