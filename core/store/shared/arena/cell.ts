// One balance in the shared memory, as one worker sees it, and what each seat has of it.
import { Cell } from '../../embedded/balance/cell.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { Arena } from './arena.ts'
import { dataOf } from './arena.ts'
import type { Place } from './directory.ts'
import type { Seat } from './seat.ts'

/** Units of posted and used: first of all seats together, then of each seat since its thread began. */
export const sumUnits = 2

/** A balance in the shared memory. Whoever changes it is within a change, and has saved it. */
export class WorkerCell extends Cell {
  /** Its lock is `unclaimed` until somebody asks for the balance with its home. */
  place: Place
  readonly #sums: BigInt64Array
  readonly #at: number
  /** Where the changes of this seat are summed up. */
  readonly #own: number

  constructor(scope: string, window: string, limit: bigint | undefined, seat: Seat, place: Place) {
    const { sums, cells } = seat.arena
    const at = dataOf(cells, place.row)
    super(scope, window, limit, sums, at)
    this.place = place
    this.#sums = sums
    this.#at = at
    this.#own = at + sumUnits * (1 + seat.number)
  }

  /** Notes what {@link WorkerCell.hold} and {@link WorkerCell.post} change. */
  save(seat: Seat): void {
    seat.save(this.#at, sumUnits)
    seat.save(this.#own, sumUnits)
  }

  override hold(amount: bigint, moved: Cell[]): void {
    super.hold(amount, moved)
    this.#sums[this.#own + 1]! += amount
  }

  override post(amount: bigint, change: bigint, moved: Cell[]): void {
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

/** What a seat has changed of a balance since its thread began. */
export function shareOf({ sums, cells }: Arena, row: number, seat: number): Share {
  const own = dataOf(cells, row) + sumUnits * (1 + seat)
  return { posted: sums[own]!, used: sums[own + 1]! }
}

/**
 * Takes back, within a change, what a seat has changed of a balance and never published. It has no share behind
 * that.
 */
export function takeBack(seat: Seat, row: number, gone: number, published: Share): void {
  const { arena } = seat
  const { posted, used } = shareOf(arena, row, gone)
  const all = dataOf(arena.cells, row)
  const own = all + sumUnits * (1 + gone)
  seat.save(all, sumUnits)
  seat.save(own, sumUnits)
  arena.sums[all]! -= posted - published.posted
  arena.sums[all + 1]! -= used - published.used
  arena.sums[own] = 0n
  arena.sums[own + 1] = 0n
}
