// The rows of balances as the supervisor forgets them: those of windows that are over, in which nothing is open.
import { dayOf, isShared, nameOf, settle } from './cell.ts'
import type { Share } from './cell.ts'
import { isIdleDay, need } from './days.ts'
import { Directory, locksOf } from './directory.ts'
import type { Place } from './directory.ts'
import { BusyLock } from './seat.ts'
import type { Seat } from './seat.ts'

/** What a worker has published of a balance: the sum of the rows of its that were read. */
export interface Published extends Share {
  readonly scope: string
  readonly window: string
}

/** A table whose rows are looked at in turn. */
interface Turn {
  readonly table: Directory
  /** The row that is looked at next. */
  hand: number
}

/** The rows of cells and of days, for the supervisor. */
export class BalanceRows {
  readonly #seat: Seat
  readonly #cells: Turn
  readonly #days: Turn
  readonly #tables: readonly number[]

  /** `seat`: that of the supervisor. */
  constructor(seat: Seat) {
    this.#seat = seat
    this.#cells = { table: new Directory(seat.arena.cells, seat), hand: 1 }
    this.#days = { table: new Directory(seat.arena.days, seat), hand: 1 }
    this.#tables = [this.#cells.table.lock, this.#days.table.lock]
  }

  /** How much of the fuller one of the tables is in use. */
  get room(): { readonly named: number; readonly rows: number } {
    const [cells, days] = [this.#cells.table.room, this.#days.table.room]
    return cells.named * days.rows > days.named * cells.rows ? cells : days
  }

  /**
   * Counts what a seat has published as settled, so that its row needs no share of the seat. Returns false when
   * somebody has the lock for too long.
   */
  settle(of: number, { scope, window, ...published }: Published): boolean {
    return this.#tried(() => {
      const { table } = this.#cells
      const place = table.look(nameOf(scope, window))
      if (!place) return
      this.#seat.change(locksOf([place]), () => table.isAt(place) && settle(this.#seat, place.row, of, published))
    })
  }

  /**
   * Forgets rows of which no seat has a share: those of windows that are over, with nothing open, and those of hours
   * that ended by `hour`, as what they have is in their days. All that was published of windows that ended by then
   * has to be settled. It looks at `count` rows of each table in turn. Returns how many it forgot.
   */
  sweep(count: number, hour: number): number {
    return (
      this.#look(this.#cells, count, (row) => this.#isIdle(row, hour)) +
      this.#look(this.#days, count, (row) => this.#isIdleDay(row))
    )
  }

  #isIdle(row: number, hour: number): boolean {
    const { arena } = this.#seat
    const over = this.#cells.table.overAt(row)
    if (over === 0 || over > hour || isShared(arena, row)) return false
    if (dayOf(arena, row) !== 0) return true
    const at = arena.cells.data + row * arena.cells.width
    return over <= this.#kept && arena.sums[at] === arena.sums[at + 1]
  }

  #isIdleDay(row: number): boolean {
    return isIdleDay(this.#seat.arena, row, this.#days.table.overAt(row), this.#kept)
  }

  get #kept(): number {
    const { words, keptAt } = this.#seat.arena
    return Atomics.load(words, keptAt)
  }

  #look(turn: Turn, count: number, isIdle: (row: number) => boolean): number {
    const { table } = turn
    let forgotten = 0
    for (let looked = 0; looked < Math.min(count, table.used); looked++) {
      const row = turn.hand > table.used ? 1 : turn.hand
      turn.hand = row + 1
      const place = table.at(row)
      // Asked without the lock first, as hardly any is.
      if (!place || !isIdle(row)) continue
      this.#tried(() => {
        if (this.#forget(table, place, isIdle)) forgotten++
      })
    }
    return forgotten
  }

  #forget(table: Directory, place: Place, isIdle: (row: number) => boolean): boolean {
    return this.#seat.change([...locksOf([place]), ...this.#tables], () => {
      // Whoever asked for it meanwhile may have given it a lock.
      if (!table.isAt(place) || table.at(place.row)!.lock !== place.lock || !isIdle(place.row)) return false
      const day = table === this.#cells.table ? dayOf(this.#seat.arena, place.row) : 0
      if (day !== 0) need(this.#seat, day, -1)
      table.forget(place)
      return true
    })
  }

  /** Whether work was done that takes locks. */
  #tried(work: () => void): boolean {
    try {
      work()
      return true
    } catch (error) {
      if (error instanceof BusyLock) return false
      throw error
    }
  }
}
