// One balance in the shared memory, as one worker sees it, and what each seat has of it.
import { Cell } from '../../embedded/balance/cell.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { Arena } from './arena.ts'
import { cellUnits, dataOf } from './arena.ts'
import type { Place } from './directory.ts'
import type { Seat } from './seat.ts'

/** Units of posted and used: first of all seats together, then of each seat since its thread began. */
export const sumUnits = 2
/** The unit that says where posted and used of all seats are, if not in the row: a row of days, and the hour. */
const elsewhere = 2

/** Where a balance lies that was forgotten, as its window is long over: in the journal alone. Nobody uses row 0. */
export function awayOf(lock: number): Place {
  return { row: 0, serial: 0, lock }
}

/** Where the sums of all seats are, in units. */
export function sumsAt({ words, cells, days }: Arena, row: number): number {
  const data = dataOf(cells, row)
  const day = words[2 * (data + elsewhere)]!
  return day === 0 ? data : dataOf(days, day) + sumUnits * words[2 * (data + elsewhere) + 1]!
}

/** The row of days that has the sums of a row; 0 when the row has them. */
export function dayOf({ words, cells }: Arena, row: number): number {
  return words[2 * (dataOf(cells, row) + elsewhere)]!
}

/** Says, within a change, in which day the sums of a row are. */
export function putElsewhere(seat: Seat, row: number, day: number, hour: number): void {
  const { words, cells } = seat.arena
  const at = dataOf(cells, row) + elsewhere
  seat.save(at)
  words[2 * at] = day
  words[2 * at + 1] = hour
}

/** Finds where balances lie, and makes rows for them. */
export interface CellPlaces {
  /**
   * Where a balance lies, which is made when there is none; away when its window is long over.
   * @throws GatewayError `billing_unavailable` when there is no room for it
   */
  place(scope: string, window: string, home: string): Place
}

/** A balance in the shared memory. Whoever changes it is within a change, and has saved it. */
export class WorkerCell extends Cell {
  /** The outermost scope of the callers; empty until one came. */
  home = ''
  #place!: Place
  readonly #sums: BigInt64Array
  readonly #arena: Arena
  readonly #seat: number
  #at = 0
  /** Where the changes of this seat are summed up. */
  #own = 0

  constructor(scope: string, window: string, limit: bigint | undefined, { arena, number }: Seat, place: Place) {
    super(scope, window, limit, arena.sums, sumsAt(arena, place.row))
    this.#sums = arena.sums
    this.#arena = arena
    this.#seat = number
    this.place = place
  }

  /** Its lock is `unclaimed` until somebody asks for the balance with its home. */
  get place(): Place {
    return this.#place
  }

  set place(place: Place) {
    this.#place = place
    this.#at = sumsAt(this.#arena, place.row)
    this.#own = ownAt(this.#arena, place.row, this.#seat)
    this.lieAt(this.#at)
  }

  /** Whether it was forgotten. What is done to it then, the journal alone knows. */
  get away(): boolean {
    return this.#place.row === 0
  }

  /** Looks where it lies now, when its row was forgotten. */
  renew(cells: CellPlaces): void {
    this.place = cells.place(this.scope, this.window, this.home)
  }

  /** Notes what {@link WorkerCell.hold} and {@link WorkerCell.post} change. */
  save(seat: Seat): void {
    if (this.away) return
    seat.save(this.#at, sumUnits)
    seat.save(this.#own, sumUnits)
  }

  override hold(amount: bigint, moved: Cell[]): void {
    if (this.away) return
    super.hold(amount, moved)
    this.#sums[this.#own + 1]! += amount
  }

  override post(amount: bigint, change: bigint, moved: Cell[]): void {
    if (this.away) return
    super.post(amount, change, moved)
    this.#sums[this.#own]! += amount
    this.#sums[this.#own + 1]! += change
  }

  /** Writes the limit alone: the journal adds balances up by the rows of all workers. */
  override write(batch: Batch): void {
    if (this.limited) batch.moves.push(this.scope, this.window, 0n, 0n)
    this.writeLimit(batch)
  }
}

/** The name of a balance. It is unique, because a window has no line break. */
export function nameOf(scope: string, window: string): string {
  return `${scope}\n${window}`
}

/** What one seat has charged and used of a balance. */
export interface Share {
  readonly posted: bigint
  readonly used: bigint
}

/** Where what a seat has changed of a balance is, in units. */
function ownAt({ cells }: Arena, row: number, seat: number): number {
  return dataOf(cells, row) + cellUnits + sumUnits * seat
}

/** What a seat has changed of a balance since its thread began, less what was settled. */
export function shareOf(arena: Arena, row: number, seat: number): Share {
  const own = ownAt(arena, row, seat)
  return { posted: arena.sums[own]!, used: arena.sums[own + 1]! }
}

/** Whether no seat has a share of a balance. The caller has the lock of its home. */
export function isShared({ sums, cells, seats }: Arena, row: number): boolean {
  const first = dataOf(cells, row) + cellUnits
  for (let own = first; own < first + sumUnits * seats; own++) if (sums[own] !== 0n) return true
  return false
}

/**
 * Counts, within a change, what a seat has published of a balance as no share of it any more: it will not be taken
 * back, whatever becomes of the thread.
 */
export function settle(seat: Seat, row: number, of: number, published: Share): void {
  const { arena } = seat
  const own = ownAt(arena, row, of)
  seat.save(own, sumUnits)
  arena.sums[own]! -= published.posted
  arena.sums[own + 1]! -= published.used
}

/**
 * Takes back, within a change, what a seat has changed of a balance and never published. It has no share behind
 * that.
 */
export function takeBack(seat: Seat, row: number, gone: number, published: Share): void {
  const { arena } = seat
  const { posted, used } = shareOf(arena, row, gone)
  const all = sumsAt(arena, row)
  const own = ownAt(arena, row, gone)
  seat.save(all, sumUnits)
  seat.save(own, sumUnits)
  arena.sums[all]! -= posted - published.posted
  arena.sums[all + 1]! -= used - published.used
  arena.sums[own] = 0n
  arena.sums[own + 1] = 0n
}
