// The balances that a ledger admits by, as they lie in the memory of its thread.
import { daysOf, horizon, isHour, oldestWindow } from '../../window.ts'
import { Cell } from './cell.ts'
import { hourOf, Hours } from './hours.ts'
import { Purse } from './purse.ts'
import type { Limited } from './purse.ts'
import type { Watch } from './thresholds.ts'

/** A balance as stored. */
export interface StoredBalance {
  readonly scope: string
  readonly window: string
  readonly limit: bigint | null
  readonly posted: bigint
  readonly pending: bigint
}

/** What a purse is made of. */
export interface PurseContents {
  readonly cells: readonly Cell[]
  readonly budgets: readonly Limited[]
  /** Collects the cells whose balances are to be written. */
  readonly moved: Cell[]
  /** See {@link Purse}. */
  readonly watches?: (() => readonly Watch[]) | undefined
}

/**
 * Owns the balances. The home of a balance is the outermost scope of the caller: all that one request changes has the
 * same home.
 */
export class Balances {
  /** How many balances were removed from memory. */
  forgotten = 0
  /** The balances by scope, then by window; not those of hours. */
  readonly #cells = new Map<string, Map<string, Cell>>()
  /** The hours of the scopes that have, or had, rolling budgets. */
  readonly #hours = new Map<string, Hours>()
  #since: number

  constructor(since: number) {
    this.#since = since
  }

  /**
   * The beginning of a day, in Unix milliseconds. All balances of windows since then are in memory. Older ones may have
   * been removed from memory.
   */
  get since(): number {
    return this.#since
  }

  /** How far back balances are kept in memory for the requests of a time, in Unix milliseconds. */
  horizon(time: number): number {
    return horizon(time)
  }

  /** Keeps what windows since a time need, that is about to be read for {@link Balances.reached}. */
  reach?(since: number): void

  /** All balances of windows since a time have been loaded. */
  reached(since: number): void {
    this.#since = since
  }

  /** The scopes that have balances, in no order. */
  get scopes(): readonly string[] {
    return [...new Set([...this.#cells.keys(), ...this.#hours.keys()])]
  }

  /** The balance of a scope in a window that is no hour, if there is one. */
  find(scope: string, window: string): Cell | undefined {
    return this.known(scope, window)
  }

  /** The balance of a scope in a window that is no hour. One that is not there is made, with nothing in it. */
  cell(scope: string, window: string, home: string): Cell {
    const known = this.known(scope, window)
    if (known) return known
    const cell = this.make(scope, window, home)
    this.keep(cell)
    this.tidy(scope)
    return cell
  }

  /** Hears what other threads have made, before somebody lists balances. */
  refresh(): void {}

  /** The hours of a scope, if it has, or had, rolling budgets. */
  findHours(scope: string): Hours | undefined {
    return this.#hours.get(scope)
  }

  /** The hours of a scope, which has them from now on. */
  hours(scope: string, home: string): Hours {
    return this.#hoursOf(scope, home)
  }

  /** The purse of these balances in the windows of a time. */
  purse(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    { cells, budgets, moved, watches }: PurseContents
  ): Purse {
    return new Purse(texts, window, cells, budgets, moved, watches)
  }

  /** Takes over balances as stored. What is in memory may be newer, and stays. */
  load(rows: Iterable<StoredBalance>): void {
    const found = new Map<string, { hour: number; posted: bigint; pending: bigint }[]>()
    const reaches: [hours: Hours, days: number][] = []
    for (const row of rows) {
      const { scope, window, limit, posted, pending } = row
      const days = daysOf(window)
      if (days !== undefined) {
        const hours = this.storedHours(scope)
        // What is in memory reaches as far as it did.
        if (hours.budgets.has(days)) continue
        hours.budget(days, limit ?? undefined)
        hours.want?.(days)
        reaches.push([hours, days])
      } else if (isHour(window)) {
        const hours = found.get(scope) ?? []
        found.set(scope, hours)
        hours.push({ hour: hourOf(Date.parse(`${window}:00Z`)), posted, pending })
      } else this.take(row)
    }
    for (const [scope, hours] of found) this.storedHours(scope).load(hours)
    for (const [hours, days] of reaches) hours.reach = Math.max(hours.reach, days)
  }

  /** Removes from memory what no window since `since` (Unix milliseconds) needs. */
  forget(since: number): void {
    this.#since = since
    for (const hours of this.#hours.values()) this.forgotten += hours.forget(since)
  }

  /** A balance that this object has made. */
  protected known(scope: string, window: string): Cell | undefined {
    return this.#cells.get(scope)?.get(window)
  }

  /** Makes the balance of a scope that is not there. */
  protected make(...[scope, window]: [scope: string, window: string, home: string]): Cell {
    return Cell.of(scope, window)
  }

  /** Takes over a balance of a window that is no hour, unless it is in memory. */
  protected take({ scope, window, limit, posted, pending }: StoredBalance): void {
    if (!this.known(scope, window)) this.keep(Cell.of(scope, window, limit ?? undefined, posted, pending))
  }

  /** Makes the hours of a scope. `home`: undefined for those that are stored. */
  protected makeHours(...[scope]: [scope: string, home: string | undefined]): Hours {
    return new Hours(scope)
  }

  /** Keeps a balance, in the place of another one of its scope and window. */
  protected keep(cell: Cell): void {
    let windows = this.#cells.get(cell.scope)
    if (!windows) this.#cells.set(cell.scope, (windows = new Map()))
    windows.set(cell.window, cell)
  }

  /** Removes balances of a scope from memory whose windows are long over. */
  protected tidy(scope: string): void {
    const windows = this.#cells.get(scope)!
    for (const [name, other] of windows)
      if (other.settled && this.isOver(name) && windows.delete(name)) this.forgotten++
  }

  /** Whether a window is long over. */
  protected isOver(window: string): boolean {
    return window < oldestWindow(this.since)
  }

  /** The hours of a scope, which are stored, or made by another thread. */
  protected storedHours(scope: string): Hours {
    return this.#hoursOf(scope, undefined)
  }

  #hoursOf(scope: string, home: string | undefined): Hours {
    let hours = this.#hours.get(scope)
    if (!hours) this.#hours.set(scope, (hours = this.makeHours(scope, home)))
    return hours
  }
}
