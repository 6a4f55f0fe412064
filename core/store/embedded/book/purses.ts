// The balances in memory, and the purses that requests are admitted by.
import { tagsOf } from '../../../catalogue/caller.ts'
import type { Budget, Scope } from '../../../catalogue/caller.ts'
import type { Batch } from '../rows/batch.ts'
import { Cell } from '../balance/cell.ts'
import { Hours, hourOf } from '../balance/hours.ts'
import type { RollingSum } from '../balance/hours.ts'
import type { Balance, BudgetWatcher } from '../../ledger.ts'
import { Purse } from '../balance/purse.ts'
import type { Limited } from '../balance/purse.ts'
import type { Reader } from '../reader/reader.ts'
import type { Row } from '../files/sqlite.ts'
import { Watch } from '../balance/thresholds.ts'
import type { Troubles } from '../files/troubles.ts'
import {
  day,
  daysOf,
  horizon,
  hour,
  isHour,
  oldestWindow,
  rollingDays,
  spansOf,
  windowOf,
  windowsOf
} from '../../window.ts'
import type { Span, Spans } from '../../window.ts'
import { unavailable } from '../writer/unavailable.ts'
import type { Writer } from '../writer/writer.ts'

/** What {@link Purses} read older balances with. `now` decides only which windows are called current. */
export interface PurseParts {
  readonly writer: Writer
  readonly reader: Reader
  readonly troubles: Troubles
  now(): number
}

/** Owns the balances while the process lives. The balances on disk are some batches behind. */
export class Purses {
  readonly #parts: PurseParts
  /**
   * The beginning of a month, in Unix milliseconds. All balances of windows since then are in memory. Older ones may
   * have been removed from memory, and are read again when the clock goes back to them.
   */
  #since: number
  #recalling = false
  /** How many balances were removed from memory. */
  #forgotten = 0
  /** The balances by scope, then by window; not those of hours. */
  readonly #cells = new Map<string, Map<string, Cell>>()
  /** The hours of the scopes that have, or had, rolling budgets. */
  readonly #hours = new Map<string, Hours>()
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

  /** `balances` are all rows since `since` (Unix milliseconds), as the start read them. */
  constructor(since: number, balances: readonly Row[], parts: PurseParts) {
    this.#since = since
    this.#parts = parts
    this.#load(balances)
  }

  /**
   * The purse of a caller's scopes at a time.
   * @throws GatewayError `billing_unavailable` while older balances that it needs are read
   */
  of(scopes: readonly Scope[], time: number): Purse {
    const known = this.#made.get(scopes)
    if (known?.isOf(time) && known.from >= this.#since) return known
    if (time < this.#since) {
      void this.#recall(time)
      throw unavailable(`the clock went back to ${new Date(time).toISOString()}: what was spent then is being read`)
    }
    const since = horizon(time)
    if (since > this.#since) {
      this.#since = since
      for (const hours of this.#hours.values()) this.#forgotten += hours.forget(since)
    }
    const purse = this.#make(scopes, time)
    this.#made.set(scopes, purse)
    return purse
  }

  #make(scopes: readonly Scope[], time: number): Purse {
    const limited: Limited[] = []
    const cells = new Set<Cell>()
    const spans: Record<string, Spans> = {}
    let length = day
    for (const { id, budgets } of scopes) {
      spans[id] = spansOf(budgets)
      for (const cell of this.#cellsOf(id, spans[id], time)) {
        cells.add(cell)
        // A limit of a budget that was removed from the configuration must not show any longer.
        if (!budgets.some(({ per }) => windowOf(spanOf(per), time) === cell.window)) cell.limit = undefined
      }
    }
    for (const scope of scopes) {
      const { id, budgets } = scope
      this.#prepare(id, budgets)
      for (const [days, stored] of this.#hours.get(id)?.budgets ?? [])
        if (!budgets.some(({ per }) => rollingDays(per) === days)) stored.declare(undefined, this.#moved)
      for (const budget of budgets) {
        const days = rollingDays(budget.per)
        if (days !== undefined) length = hour
        const balance =
          days === undefined ? this.#cell(id, windowOf(spanOf(budget.per), time)) : this.#sum(id, days, time)
        const stored = days === undefined ? undefined : this.#hoursOf(id).budget(days)
        limited.push({ scope, budget, balance, stored, watch: this.#watchOf(scope, budget, time, balance) })
      }
    }
    const from = Math.floor(time / length) * length
    const tags = tagsOf(scopes)
    const texts = { scopes: JSON.stringify(spans), tags: tags ? JSON.stringify(tags) : null }
    return new Purse(texts, { from, until: from + length }, [...cells], limited, this.#moved)
  }

  /**
   * The purse of an open hold of an earlier start, whose scopes and tags are as stored. The balances include what it
   * holds already. Its charge is not limited by budgets, and reaches the thresholds of those that the scopes have then.
   */
  stored(texts: Pick<Purse, 'scopes' | 'tags'>, time: number): Purse {
    const scopes = Object.entries(JSON.parse(texts.scopes) as Record<string, Spans>)
    const cells = scopes.flatMap(([id, spans]) => this.#cellsOf(id, spans, time))
    for (const cell of cells) cell.hold(0n, this.#moved)
    const watches = (): Watch[] => scopes.flatMap(([id]) => this.#watchesOf(this.#watcher?.scope(id), time))
    return new Purse(texts, { from: time, until: time }, cells, [], this.#moved, watches)
  }

  /** The thresholds of all budgets of a scope in the windows of a time. */
  #watchesOf(scope: Scope | undefined, time: number): Watch[] {
    if (!scope) return []
    const { id, budgets } = scope
    return budgets.flatMap((budget) => {
      const days = rollingDays(budget.per)
      if (days === undefined)
        return this.#watchOf(scope, budget, time, this.#cell(id, windowOf(spanOf(budget.per), time))) ?? []
      const hours = this.#hours.get(id)
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
    return [...new Set([...this.#cells.keys(), ...this.#hours.keys()])]
  }

  /** The balances of the current windows, sorted by scope. */
  balances({ scope }: { scope?: string } = {}): Balance[] {
    const now = this.#parts.now()
    if (now < this.#since) void this.#recall(now)
    const current = [windowOf('day', now), windowOf('week', now), windowOf('month', now), 'total']
    const scopes = scope === undefined ? [...this.#cells.keys()].sort() : [scope]
    return scopes.flatMap((id) => {
      const cells = this.#cells.get(id)
      return [
        ...current.flatMap((window) => {
          const cell = cells?.get(window)
          return cell ? [{ scope: id, window, limit: cell.limit, posted: cell.posted, pending: cell.pending }] : []
        }),
        ...this.#rolling(id, now)
      ]
    })
  }

  /** The balances of the rolling budgets of a scope. */
  #rolling(scope: string, now: number): Balance[] {
    const hours = this.#hours.get(scope)
    if (!hours || now < this.#since) return []
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

  /** A scope that has its first rolling budgets has no hours in the database, so none need to be read. */
  #prepare(scope: string, budgets: readonly Budget[]): void {
    const most = budgets.reduce((most, { per }) => Math.max(most, rollingDays(per) ?? 0), 0)
    if (most === 0) return
    const hours = this.#hoursOf(scope)
    if (hours.budgets.size === 0) hours.reach = most
  }

  /**
   * The sum of a rolling budget.
   * @throws GatewayError `billing_unavailable` until its oldest hours are read, when it has more days than any before
   */
  #sum(scope: string, days: number, time: number): RollingSum {
    const hours = this.#hoursOf(scope)
    if (days > hours.reach) {
      void this.#extend(hours, days)
      throw unavailable(`what ${scope} spent in the last ${days} days is being read`)
    }
    return hours.sum(days, hourOf(time))
  }

  /** The balances in which an amount of a scope counts. */
  #cellsOf(scope: string, spans: Spans, time: number): Cell[] {
    return windowsOf(spans, time).map((window) =>
      isHour(window) ? this.#hoursOf(scope).cell(hourOf(time)) : this.#cell(scope, window)
    )
  }

  #cell(scope: string, window: string): Cell {
    const known = this.#cells.get(scope)?.get(window)
    if (known) return known
    const cell = Cell.of(scope, window)
    this.#keep(cell)
    const windows = this.#cells.get(scope)!
    const oldest = oldestWindow(this.#since)
    for (const [name, other] of windows) if (name < oldest && other.settled && windows.delete(name)) this.#forgotten++
    return cell
  }

  #hoursOf(scope: string): Hours {
    let hours = this.#hours.get(scope)
    if (!hours) this.#hours.set(scope, (hours = new Hours(scope)))
    return hours
  }

  /**
   * Reads the balances of windows from a time on that were removed from memory. Requests that need them are refused
   * until then.
   */
  #recall(time: number): Promise<void> {
    return this.#read(async () => {
      const forgotten = this.#forgotten
      const since = horizon(time)
      // Cells in memory keep changing during the read, and are kept. A cell that is not in memory has no holds, so the
      // database has its current balance.
      if (!(await this.#parts.writer.flushed())) return
      const { rows } = await this.#parts.reader.ask({ kind: 'balances', since })
      if (this.#forgotten !== forgotten) return
      this.#load(rows)
      this.#since = since
    })
  }

  /** Reads the hours of a scope that a rolling budget of more days than before needs. */
  #extend(hours: Hours, days: number): Promise<void> {
    return this.#read(async () => {
      const [forgotten, since] = [this.#forgotten, this.#since]
      if (!(await this.#parts.writer.flushed())) return
      const { rows } = await this.#parts.reader.ask({ kind: 'hours', scope: hours.scope, since: since - days * day })
      if (this.#forgotten !== forgotten || this.#since < since) return
      this.#load(rows)
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

  #load(rows: readonly Row[]): void {
    const found = new Map<string, { hour: number; posted: bigint; pending: bigint }[]>()
    for (const row of rows) {
      const [scope, window, limit] = [row['scope'] as string, row['window'] as string, row['limit'] as bigint | null]
      const [posted, pending] = [row['posted'] as bigint, row['pending'] as bigint]
      const days = daysOf(window)
      if (days !== undefined) {
        const hours = this.#hoursOf(scope)
        // What is in memory may be newer, and reaches as far as it did.
        if (hours.budgets.has(days)) continue
        hours.budget(days, limit ?? undefined)
        hours.reach = Math.max(hours.reach, days)
      } else if (isHour(window)) {
        const hours = found.get(scope) ?? []
        found.set(scope, hours)
        hours.push({ hour: hourOf(Date.parse(`${window}:00Z`)), posted, pending })
      } else if (!this.#cells.get(scope)?.has(window)) {
        this.#keep(Cell.of(scope, window, limit ?? undefined, posted, pending))
      }
    }
    for (const [scope, hours] of found) this.#hoursOf(scope).load(hours)
  }

  #keep(cell: Cell): void {
    let windows = this.#cells.get(cell.scope)
    if (!windows) this.#cells.set(cell.scope, (windows = new Map()))
    windows.set(cell.window, cell)
  }
}

/** The span of a calendar budget; of a rolling one that of its hours. */
function spanOf(per: Budget['per']): Span {
  return rollingDays(per) === undefined ? (per as Span) : 'hour'
}
