// A balance in memory: the authority for admission, ahead of the disk by a second or so.
import type { Batch } from './batch.ts'

/** The largest amount that a column holds: about 9.2 billion dollars. */
export const maxNano = 2n ** 63n - 1n

/** Up to which sum a balance takes holds: the other half is for charges beyond what was held for them. */
export const mostHeld = 2n ** 62n

/** One scope in one window. */
export class Cell {
  readonly scope: string
  readonly window: string
  /** That the latest hold of an amount was within; written with the next move. */
  limit: bigint | undefined
  /** Posted and used. Sums of 64 bits are added to in place; a bigint would be a new object each time. */
  readonly #sums = new BigInt64Array(2)
  #savedLimit: bigint | undefined
  #savedPosted: bigint
  #savedUsed: bigint
  #moved = false

  constructor(scope: string, window: string, limit?: bigint, posted = 0n, pending = 0n) {
    this.scope = scope
    this.window = window
    this.limit = this.#savedLimit = limit
    this.#sums[0] = this.#savedPosted = posted
    this.#sums[1] = this.#savedUsed = posted + pending
  }

  /** Charged. */
  get posted(): bigint {
    return this.#sums[0]!
  }

  /** Charged or held. One sum and not two, as every request asks for it. */
  get used(): bigint {
    return this.#sums[1]!
  }

  /** Held. */
  get pending(): bigint {
    return this.used - this.posted
  }

  /** Nothing in it is still to be written or given back. */
  get settled(): boolean {
    return this.used === this.posted && this.#savedUsed === this.#savedPosted && this.posted === this.#savedPosted
  }

  /** Holds an amount, and enters the list of cells to be written unless it is there already. */
  hold(amount: bigint, moved: Cell[]): void {
    this.#sums[1]! += amount
    this.#enter(moved)
  }

  /** Charges an amount; `change` is by how much more it is than what was held for it. */
  post(amount: bigint, change: bigint, moved: Cell[]): void {
    this.#sums[0]! += amount
    this.#sums[1]! += change
    this.#enter(moved)
  }

  /** Adds what changed since it was written last, which takes it off the list. */
  write(batch: Batch): void {
    const posted = this.posted - this.#savedPosted
    const pending = this.used - this.#savedUsed - posted
    const limited = this.limit !== this.#savedLimit
    if (posted !== 0n || pending !== 0n || limited) batch.moves.push(this.scope, this.window, posted, pending)
    if (limited)
      batch.limits.push(this.limit === undefined ? null : smaller(this.limit, maxNano), this.scope, this.window)
    this.#savedLimit = this.limit
    this.#savedPosted = this.posted
    this.#savedUsed = this.used
    this.#moved = false
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
