// A balance in memory. Admission is decided by it; the balance on disk follows about a second later.
import type { Batch } from '../rows/batch.ts'
import { placesFor } from './amounts.ts'

/** The largest amount that a column holds: about 9.2 billion dollars. */
export const maxNano = 2n ** 63n - 1n

/**
 * The largest sum of charges and holds at which a new hold is taken. The other half of the column is for charges that
 * exceed their hold.
 */
export const mostHeld = 2n ** 62n

/** The balance of one scope in one window. Amounts are in nano-dollars. */
export class Cell {
  readonly scope: string
  readonly window: string
  /** The limit of the budget at the time of the latest hold; saved with the next batch that has balances. */
  limit: bigint | undefined
  /**
   * Posted at `#at`, and used (posted and pending) behind it. An array of 64-bit integers is changed in place, while
   * each bigint would be a new object.
   */
  readonly #sums: BigInt64Array
  #at: number
  #savedLimit: bigint | undefined
  /** The same two sums as they were written last. */
  readonly #saved: BigInt64Array
  readonly #savedAt: number
  #moved = false
  /** How many holds are open. One of nothing may be charged, too. */
  #holds = 0

  /** A balance whose sums lie in an array, and are as stored. */
  constructor(scope: string, window: string, limit: bigint | undefined, sums: BigInt64Array, at: number) {
    this.scope = scope
    this.window = window
    this.limit = this.#savedLimit = limit
    this.#sums = sums
    this.#at = at
    const saved = placesFor(2)
    this.#saved = saved.array
    this.#savedAt = saved.at
    this.#save()
  }

  /** A balance with sums of its own. */
  static of(scope: string, window: string, limit?: bigint, posted = 0n, pending = 0n): Cell {
    const { array, at } = placesFor(2)
    array[at] = posted
    array[at + 1] = posted + pending
    return new Cell(scope, window, limit, array, at)
  }

  /** What was charged. */
  get posted(): bigint {
    return this.#sums[this.#at]!
  }

  /** What was charged or is held. It is kept as one sum because every request asks for it. */
  get used(): bigint {
    return this.#sums[this.#at + 1]!
  }

  /** What is held. */
  get pending(): bigint {
    return this.used - this.posted
  }

  /** Whether there are no holds, and everything is written. */
  get settled(): boolean {
    return !this.#moved && this.#holds === 0
  }

  /** Holds an amount. `moved` is the list of cells to be written; the cell adds itself unless it is in it. */
  hold(amount: bigint, moved: Cell[]): void {
    this.#holds++
    this.#sums[this.#at + 1]! += amount
    this.#enter(moved)
  }

  /** Ends a hold with a charge of `amount`. `change` is the amount less what was held for it. */
  post(amount: bigint, change: bigint, moved: Cell[]): void {
    this.#holds--
    this.#sums[this.#at]! += amount
    this.#sums[this.#at + 1]! += change
    this.#enter(moved)
  }

  /** Sets the limit of the budget that let the latest hold in. */
  limitTo(limit: bigint): void {
    this.limit = limit
  }

  /** Sets the limit of a cell that has nothing but one, and has it written. */
  declare(limit: bigint | undefined, moved: Cell[]): void {
    if (this.limit === limit) return
    this.limit = limit
    this.#enter(moved)
  }

  /**
   * Adds the changes since the last write to a batch. The caller then removes the cell from the list of cells to be
   * written.
   */
  write(batch: Batch): void {
    const posted = this.posted - this.#saved[this.#savedAt]!
    const pending = this.used - this.#saved[this.#savedAt + 1]! - posted
    if (posted !== 0n || pending !== 0n || this.limited) batch.moves.push(this.scope, this.window, posted, pending)
    this.#save()
    this.writeLimit(batch)
  }

  /** Its sums lie at another place of the array from now on. */
  protected lieAt(at: number): void {
    this.#at = at
  }

  /** Whether the limit is not the one that was written last. */
  protected get limited(): boolean {
    return this.limit !== this.#savedLimit
  }

  /** Adds the limit to a batch, if it has changed: the last part of {@link Cell.write}. */
  protected writeLimit(batch: Batch): void {
    if (this.limited)
      batch.limits.push(this.limit === undefined ? null : smaller(this.limit, maxNano), this.scope, this.window)
    this.#savedLimit = this.limit
    this.#moved = false
  }

  #save(): void {
    this.#saved[this.#savedAt] = this.posted
    this.#saved[this.#savedAt + 1] = this.used
  }

  #enter(moved: Cell[]): void {
    if (this.#moved) return
    this.#moved = true
    moved.push(this)
  }
}

/** The smaller of two amounts. */
export function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
