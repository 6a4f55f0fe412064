// The thresholds of budgets in a book that many nodes share: whichever node charges what reaches one tells it, once.
import type { Budget, Scope } from '../../../../catalogue/caller.ts'
import { maxNano, smaller } from '../../../embedded/balance/cell.ts'
import { Watch } from '../../../embedded/balance/thresholds.ts'
import type { BudgetReached, BudgetWatcher } from '../../../ledger.ts'
import { rollingDays, windowOf } from '../../../window.ts'
import type { Span } from '../../../window.ts'
import type { Lane } from '../../database/lane.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { End } from '../sending/operations.ts'
import type { Plans } from '../balances/plan.ts'
import type { Views } from '../balances/views.ts'

/** What the alarms of a node are made of. `now` decides the hours that count in a rolling budget. */
export interface AlarmParts {
  readonly lane: Lane
  readonly mirror: Mirror
  readonly views: Views
  readonly plans: Plans
  now(): number
  troubled(error: Error): void
}

/** Tells a watcher of thresholds that this node's charges have reached. */
export class Alarms {
  readonly #parts: AlarmParts
  #watcher: BudgetWatcher | undefined
  /** By scope and kind of window: in the latest window, and in the one before. */
  readonly #watches = new Map<string, Watch[]>()
  /** Scopes with rolling budgets whose sums are to be read. */
  readonly #rolling = new Map<string, Scope>()
  #reading = false

  constructor(parts: AlarmParts) {
    this.#parts = parts
  }

  get watcher(): BudgetWatcher | undefined {
    return this.#watcher
  }

  watch(watcher: BudgetWatcher): void {
    this.#watcher = watcher
    this.#watches.clear()
  }

  /** Ends were written: looks at the budgets that they count in. */
  look(ends: readonly End[]): void {
    if (!this.#watcher) return
    for (const { scopes, time } of ends)
      for (const scope of scopes())
        for (const budget of scope.budgets) {
          if (!budget.alerts?.length) continue
          if (rollingDays(budget.per) !== undefined) this.#rolling.set(scope.id, scope)
          else {
            const window = windowOf(budget.per as Span, time)
            const cell = this.#parts.mirror.get(`${scope.id} ${window}`)?.cell
            if (cell) this.#check(scope, budget, window, cell)
          }
        }
    if (this.#rolling.size > 0) void this.#read()
  }

  #check(scope: Scope, budget: Budget, window: string, charged: { posted: bigint; last?: number }): void {
    const name = `${scope.id} ${budget.per}`
    let watches = this.#watches.get(name)
    if (!watches) this.#watches.set(name, (watches = []))
    let watch = watches.find((one) => one.window === window)
    if (!watch) {
      watches.push((watch = new Watch(scope, budget.per, window, this.#once(this.#watcher!))))
      if (watches.length > 2) watches.shift()
    }
    watch.arm(scope, budget, charged)
    watch.check()
  }

  /** Reads the sums of rolling budgets, all that have changed since the last time at once. */
  async #read(): Promise<void> {
    if (this.#reading) return
    this.#reading = true
    try {
      while (this.#rolling.size > 0) {
        const scopes = [...this.#rolling.values()]
        this.#rolling.clear()
        const plan = this.#parts.plans.of(scopes, this.#parts.now())
        const standings = (await this.#parts.views.purse(plan)).standings()
        for (const [i, { scope, budget, of }] of plan.limits.entries())
          if ('to' in of && budget.alerts?.length)
            this.#check(scope, budget, budget.per, { posted: BigInt(standings[i]!.posted_nano), last: of.to })
      }
    } catch (error) {
      // The next charge looks again.
      this.#parts.troubled(error as Error)
    } finally {
      this.#reading = false
    }
  }

  /** Tells what no other node has told. A rolling budget has no windows, and tells each threshold once a day. */
  #once(watcher: BudgetWatcher): BudgetWatcher {
    return {
      told: (budget) => watcher.told(budget),
      scope: (id) => watcher.scope(id),
      reached: (reached) => {
        void this.#tell(watcher, reached)
        return true
      }
    }
  }

  async #tell(watcher: BudgetWatcher, reached: BudgetReached): Promise<void> {
    const { scope, per, threshold, limit } = reached
    const day = windowOf('day', this.#parts.now())
    const window = rollingDays(per) === undefined ? reached.window : `${per} ${day}`
    const values = [scope, per, window, threshold, smaller(limit, maxNano)]
    try {
      const { count } = await this.#parts.lane.query(
        'insert into sluice.told values ($1, $2, $3, $4, $5) on conflict do nothing',
        values
      )
      if (count === 0 || watcher.reached(reached)) return
      await this.#parts.lane.query(
        'delete from sluice.told where scope = $1 and per = $2 and "window" = $3 and threshold = $4 and "limit" = $5',
        values
      )
    } catch (error) {
      this.#parts.troubled(error as Error)
    }
    // It was not told: the next charge tries again.
    this.#watches.delete(`${scope} ${per}`)
  }
}
