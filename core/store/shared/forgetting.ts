// Forgets what nobody needs any more of balances: in the shared memory, and in what the records of seats have said.
import type { Troubles } from '../embedded/files/troubles.ts'
import { hour } from '../window.ts'
import { BalanceRows } from './arena/balance-rows.ts'
import type { Seats } from './arena/seats.ts'
import type { RecordReader } from './records/record-reader.ts'

/** For how many hours what each seat has of a window is kept behind its end, as requests may still be under way. */
const kept = 3
/** How many sums of records are settled at once, and how many rows of each table are looked at. */
const [mostSettled, swept] = [500, 2000]
/** When the operator is told that a table gets full, as a part of it. */
const nearlyFull = 0.9

/** What it looks at. */
export interface ForgettingParts {
  readonly seats: Seats
  readonly reader: Pick<RecordReader, 'seats'>
  readonly troubles: Pick<Troubles, 'begin' | 'over'>
  /** Unix milliseconds. */
  readonly now: () => number
}

/** It is made by the supervisor. */
export class Forgetting {
  readonly #parts: ForgettingParts
  readonly #rows: BalanceRows

  constructor(parts: ForgettingParts) {
    this.#parts = parts
    this.#rows = new BalanceRows(parts.seats.own)
  }

  /** Forgets some of it. Call it once a second. */
  go(): void {
    const over = Math.floor(this.#parts.now() / hour) - kept
    // A row may be forgotten when no seat has a share of it, and that is so only if no record has anything of it.
    if (this.#settle(over * hour) && !this.#parts.seats.areLeft) this.#rows.sweep(swept, over)
    this.#tell()
  }

  /** Settles what records have said of windows that ended by a time. Returns whether nothing of it is left. */
  #settle(time: number): boolean {
    let rest = mostSettled
    for (const [seat, records] of this.#parts.reader.seats)
      if (!records.settle(time, (published) => rest-- > 0 && this.#rows.settle(seat, published))) return false
    return true
  }

  #tell(): void {
    const { troubles } = this.#parts
    const { named, rows } = this.#rows.room
    if (named >= nearlyFull * rows) troubles.begin('balances', `${named} of ${rows} places for balances are in use`)
    else troubles.over('balances')
  }
}
