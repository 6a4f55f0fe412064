// The purses that requests are admitted by, and what is asked of the balances in memory.
import { tagsOf } from '../../../catalogue/caller.ts'
import type { Budget, Scope } from '../../../catalogue/caller.ts'
import type { Batch } from '../rows/batch.ts'
import type { Balances, StoredBalance } from '../balance/balances.ts'
import type { Cell } from '../balance/cell.ts'
import { hourOf } from '../balance/hours.ts'
import type { Hours, RollingSum } from '../balance/hours.ts'
import type { Balance, BudgetWatcher } from '../../ledger.ts'
import type { Limited, Purse } from '../balance/purse.ts'
import type { Row } from '../files/sqlite.ts'
import { Watch } from '../balance/thresholds.ts'
import type { Troubles } from '../files/troubles.ts'
import { day, hour, isHour, rollingDays, spansOf, windowOf, windowsOf } from '../../window.ts'
import type { Span, Spans } from '../../window.ts'
import { unavailable } from '../writer/unavailable.ts'

/** What {@link Purses} read older balances with. `now` decides only which windows are called current. */
export interface PurseParts {
  readonly writer: { flushed(): Promise<boolean> }
  readonly reader: BalanceReader
  readonly troubles: Pick<Troubles, 'begin' | 'over'>
  now(): number
}

/** Reads balances that are not in memory. */
export interface BalanceReader {
  /** Of all windows since a time, or of the hours of a scope since then. */
  ask(
    question: { kind: 'balances'; since: number } | { kind: 'hours'; scope: string; since: number }
  ): Promise<{ rows: Row[] }>
}

/** Makes the purses of a process. The balances on disk are some batches behind those that they change. */
export class Purses {
  readonly #parts: PurseParts
  readonly #balances: Balances
  #recalling = false
  /** Purses by the array of a caller's scopes, which stays the same object until the configuration is reloaded. */
  #made = new WeakMap<readonly Scope[], Purse>()
  #watcher: BudgetWatcher | undefined
  /**
   * The thresholds of budgets by scope and kind of window: in the latest window, and in the one before, as requests
   * that arrived before its end are still admitted. All purses of a window share them, so that each is told once.
   */
  readonly #watches = new Map<string, Watch[]>()
  /** The cells that changed since their balance was last written to a batch. */
  readonly #moved: Cell[] = []

  /** `rows` are all balances as the start read them, since the time that `balances` have. */
  constructor(balances: Balances, rows: readonly Row[], parts: PurseParts) {
    this.#balances = balances
    this.#parts = parts
    balances.load(rows as readonly unknown[] as readonly StoredBalance[])
  }

  /**
   * The purse of a caller's scopes at a time.
   * @throws GatewayError `billing_unavailable` while older balances that it needs are read
   */
  of(scopes: readonly Scope[], time: number): Purse {
    const known = this.#made.get(scopes)
    if (known?.isOf(time) && known.from >= this.#balances.since) return known
    if (time < this.#balances.since) {
      void this.#recall(time)
      throw unavailable(`the clock went back to ${new Date(time).toISOString()}: what was spent then is being read`)
    }
    const since = this.#balances.horizon(time)
    if (since > this.#balances.since) this.#balances.forget(since)
    const purse = this.#make(scopes, time)
    this.#made.set(scopes, purse)
    return purse
  }

  #make(scopes: readonly Scope[], time: number): Purse {
    const limited: Limited[] = []
    const cells = new Set<Cell>()
    const spans: Record<string, Spans> = {}
    let length = day
    const home = scopes[0]?.id ?? ''
    for (const { id, budgets } of scopes) {
      spans[id] = spansOf(budgets)
      for (const cell of this.#cellsOf(id, spans[id], time, home)) {
        cells.add(cell)
        // A limit of a budget that was removed from the configuration must not show any longer.
        if (!budgets.some(({ per }) => windowOf(spanOf(per), time) === cell.window)) cell.limit = undefined
      }
    }
    for (const scope of scopes) {
      const { id, budgets } = scope
      this.#prepare(id, budgets, home)
      for (const [days, stored] of this.#balances.findHours(id)?.budgets ?? [])
        if (!budgets.some(({ per }) => rollingDays(per) === days)) stored.declare(undefined, this.#moved)
      for (const budget of budgets) {
        const days = rollingDays(budget.per)
        if (days !== undefined) length = hour
        const balance =
          days === undefined
            ? this.#balances.cell(id, windowOf(spanOf(budget.per), time), home)
            : this.#sum(id, days, time, home)
        const stored = days === undefined ? undefined : this.#balances.hours(id, home).budget(days)
        limited.push({ scope, budget, balance, stored, watch: this.#watchOf(scope, budget, time, balance) })
      }
    }
    const from = Math.floor(time / length) * length
    const tags = tagsOf(scopes)
    const texts = { scopes: JSON.stringify(spans), tags: tags ? JSON.stringify(tags) : null }
    // Copies, as lists that grew keep room for more.
    const contents = { cells: [...cells].slice(), budgets: limited.slice(), moved: this.#moved }
    return this.#balances.purse(texts, { from, until: from + length }, contents)
  }

  /**
   * The purse of an open hold of an earlier start, whose scopes and tags are as stored. The balances include what it
   * holds already. Its charge is not limited by budgets, and reaches the thresholds of those that the scopes have then.
   */
  stored(texts: Pick<Purse, 'scopes' | 'tags'>, time: number): Purse {
    const scopes = Object.entries(JSON.parse(texts.scopes) as Record<string, Spans>)
    const home = scopes[0]?.[0] ?? ''
    const cells = scopes.flatMap(([id, spans]) => this.#cellsOf(id, spans, time, home))
    const watches = (): Watch[] => scopes.flatMap(([id]) => this.#watchesOf(this.#watcher?.scope(id), time, home))
    const contents = { cells, budgets: [], moved: this.#moved, watches }
    const purse = this.#balances.purse(texts, { from: time, until: time }, contents)
    purse.resume()
    return purse
  }

  /** The thresholds of all budgets of a scope in the windows of a time. */
  #watchesOf(scope: Scope | undefined, time: number, home: string): Watch[] {
    if (!scope) return []
    const { id, budgets } = scope
    return budgets.flatMap((budget) => {
      const days = rollingDays(budget.per)
      if (days === undefined) {
        const cell = this.#balances.cell(id, windowOf(spanOf(budget.per), time), home)
        return this.#watchOf(scope, budget, time, cell) ?? []
      }
      const hours = this.#balances.findHours(id)
      if (!hours || days > hours.reach) return []
      return this.#watchOf(scope, budget, time, hours.sum(days, hourOf(this.#parts.now()))) ?? []
    })
  }

  get watcher(): BudgetWatcher | undefined {
    return this.#watcher
  }

  /** Tells a watcher of the thresholds of budgets from now on. */
  watch(watcher: BudgetWatcher): void {
    this.#watcher = watcher
    this.#watches.clear()
    this.#made = new WeakMap()
  }

  /** The thresholds of a budget in the window of a time; undefined when it has none. */
  #watchOf(scope: Scope, budget: Budget, time: number, balance: Limited['balance']): Watch | undefined {
    if (!this.#watcher || !budget.alerts || budget.alerts.length === 0) return undefined
    const { per } = budget
    const name = `${scope.id} ${per}`
    const window = rollingDays(per) === undefined ? windowOf(spanOf(per), time) : per
    let watches = this.#watches.get(name)
    if (!watches) this.#watches.set(name, (watches = []))
    let watch = watches.find((one) => one.window === window)
    if (!watch) {
      watches.push((watch = new Watch(scope, per, window, this.#watcher)))
      if (watches.length > 2) watches.shift()
    }
    watch.arm(scope, budget, balance)
    return watch
  }

  /** The scopes that have balances, in no order. */
  scopes(): readonly string[] {
    this.#balances.refresh()
    return this.#balances.scopes
  }

  /** The balances of the current windows, sorted by scope. */
  balances({ scope }: { scope?: string } = {}): Balance[] {
    const now = this.#parts.now()
    if (now < this.#balances.since) void this.#recall(now)
    this.#balances.refresh()
    const current = [windowOf('day', now), windowOf('week', now), windowOf('month', now), 'total']
    const scopes = scope === undefined ? [...this.#balances.scopes].sort() : [scope]
    return scopes.flatMap((id) => [
      ...current.flatMap((window) => {
        const cell = this.#balances.find(id, window)
        return cell ? [{ scope: id, window, limit: cell.limit, posted: cell.posted, pending: cell.pending }] : []
      }),
      ...this.#rolling(id, now)
    ])
  }

  /** The balances of the rolling budgets of a scope. */
  #rolling(scope: string, now: number): Balance[] {
    const hours = this.#balances.findHours(scope)
    if (!hours || now < this.#balances.since) return []
    return [...hours.budgets].flatMap(([days, { window, limit }]) => {
      if (days > hours.reach) return []
      const { posted, pending } = hours.sum(days, hourOf(now))
      return [{ scope, window, limit, posted, pending }]
    })
  }

  /** Adds the changes of all balances to a batch, so that the balances on disk are those after it. */
  write(batch: Batch): void {
    batch.balanced = true
    for (const cell of this.#moved) cell.write(batch)
    this.#moved.length = 0
  }

  #prepare(scope: string, budgets: readonly Budget[], home: string): void {
    const most = budgets.reduce((most, { per }) => Math.max(most, rollingDays(per) ?? 0), 0)
    if (most > 0) this.#balances.hours(scope, home).begin(most)
  }

  /**
   * The sum of a rolling budget.
   * @throws GatewayError `billing_unavailable` until its oldest hours are read, when it has more days than any before
   */
  #sum(scope: string, days: number, time: number, home: string): RollingSum {
    const hours = this.#balances.hours(scope, home)
    if (days > hours.reach) {
      void this.#extend(hours, days)
      throw unavailable(`what ${scope} spent in the last ${days} days is being read`)
    }
    return hours.sum(days, hourOf(time))
  }

  /** The balances in which an amount of a scope counts. */
  #cellsOf(scope: string, spans: Spans, time: number, home: string): Cell[] {
    return windowsOf(spans, time).map((window) =>
      isHour(window) ? this.#balances.hours(scope, home).cell(hourOf(time)) : this.#balances.cell(scope, window, home)
    )
  }

  /**
   * Reads the balances of windows from a time on that were removed from memory. Requests that need them are refused
   * until then.
   */
  #recall(time: number): Promise<void> {
    return this.#read(async () => {
      const { forgotten } = this.#balances
      const since = this.#balances.horizon(time)
      this.#balances.reach?.(since)
      // Cells in memory keep changing during the read, and are kept. A cell that is not in memory has no holds, so the
      // database has its current balance.
      if (!(await this.#parts.writer.flushed())) return
      const { rows } = await this.#parts.reader.ask({ kind: 'balances', since })
      if (this.#balances.forgotten !== forgotten) return
      this.#balances.load(rows as readonly unknown[] as readonly StoredBalance[])
      this.#balances.reached(since)
    })
  }

  /** Reads the hours of a scope that a rolling budget of more days than before needs. */
  #extend(hours: Hours, days: number): Promise<void> {
    return this.#read(async () => {
      const { forgotten, since } = this.#balances
      hours.want?.(days)
      if (!(await this.#parts.writer.flushed())) return
      const { rows } = await this.#parts.reader.ask({ kind: 'hours', scope: hours.scope, since: since - days * day })
      if (this.#balances.forgotten !== forgotten || this.#balances.since < since) return
      this.#balances.load(rows as readonly unknown[] as readonly StoredBalance[])
      hours.reach = Math.max(hours.reach, days)
    })
  }

  async #read(read: () => Promise<void>): Promise<void> {
    if (this.#recalling) return
    this.#recalling = true
    try {
      await read()
      // A purse may hold a cell that was removed from memory, and in whose place another one was loaded.
      this.#made = new WeakMap()
      this.#parts.troubles.over('history')
    } catch (error) {
      // The next request in such a window tries again.
      this.#parts.troubles.begin('history', String(error))
    } finally {
      this.#recalling = false
    }
  }
}

/** The span of a calendar budget; of a rolling one that of its hours. */
function spanOf(per: Budget['per']): Span {
  return rollingDays(per) === undefined ? (per as Span) : 'hour'
}
