// The slices of a node: which of them its requests take from, and what of them the next batch tells the database.
import { smaller } from '../../../embedded/balance/cell.ts'
import { Slice, usualSizing } from './slice.ts'
import type { Change, Sizing } from './slice.ts'

/** A budget that a request counts in. */
export interface Share {
  /** The name of the balance that has the budget, also where the hours of a rolling one have the money. */
  readonly key: string
  readonly limit: bigint
  /** Of a rolling budget: the hour of the request. Else 0. */
  readonly hour: number
}

/** What was taken for one request: a slice for each of its shares, undefined where the database must decide. */
export type Taken = readonly (Slice | undefined)[]

/** The slices of one node, in one epoch. */
export class Slices {
  readonly #sizing: Sizing
  readonly #slices = new Map<string, Slice>()
  /** In the order in which they began to wait. */
  readonly #due: Slice[] = []
  /** Those of this epoch, kept or not: what is put back into others is nobody's. */
  #present = new WeakSet<Slice>()
  /** Those of which the database may not know what is admitted and not written. */
  readonly #ahead = new Set<Slice>()

  constructor(sizing: Sizing = usualSizing) {
    this.#sizing = sizing
  }

  /** How many are kept, used or not. */
  get size(): number {
    return this.#slices.size
  }

  /** Whether something is in any of them, or may be soon. */
  get held(): boolean {
    for (const slice of this.#slices.values()) if (slice.room > 0n || slice.asking) return true
    return false
  }

  /** Takes an amount out of all slices that have it. `now`: in milliseconds of any clock. */
  take(shares: readonly Share[], amount: bigint, now: number): Taken {
    return shares.map(({ key, limit, hour }) => {
      let slice = this.#slices.get(key)
      if (!slice) {
        this.#slices.set(key, (slice = new Slice(key, this.#sizing)))
        this.#present.add(slice)
      }
      this.#tell(slice)
      return slice.take(amount, limit, hour, now) ? slice : undefined
    })
  }

  /**
   * Takes what is lacking for a request that has come before, where slices carry all of it by now. Undefined where they
   * do not: then nothing is taken.
   */
  takeAgain(shares: readonly Share[], amount: bigint, taken: Taken): Taken | undefined {
    const more: (Slice | undefined)[] = []
    for (const [i, { key, limit, hour }] of shares.entries()) {
      if (taken[i]) continue
      const slice = this.#slices.get(key)
      if (!slice?.takeAgain(amount, limit, hour)) {
        this.putBack(more, amount)
        return undefined
      }
      more[i] = slice
    }
    return shares.map((_, i) => taken[i] ?? more[i])
  }

  /** Puts back what was taken for a request that is not admitted. A slice that is not kept any more is kept again. */
  putBack(taken: Taken, amount: bigint): void {
    for (const slice of taken) {
      if (!slice || !this.#present.has(slice)) continue
      const kept = this.#slices.get(slice.key)
      if (!kept) this.#slices.set(slice.key, slice)
      ;(kept ?? slice).putBack(amount)
    }
  }

  /** Others need what is left of a budget. Returns whether this node has any of it, and so a batch is due. */
  recall(key: string): boolean {
    const slice = this.#slices.get(key)
    if (!slice?.recall()) return false
    this.#tell(slice)
    return true
  }

  /** Everything is given back, as far as nothing is under way. */
  recallAll(): void {
    for (const key of this.#slices.keys()) this.recall(key)
  }

  /** So much more is admitted from these and leaves with a later batch; less, where it leaves or ends before. */
  ahead(taken: Taken, amount: bigint): void {
    for (const slice of taken) {
      if (!slice || !this.#present.has(slice)) continue
      slice.unwritten += amount
      this.#ahead.add(slice)
    }
  }

  /**
   * What the next batch says, of so many slices at most, those first that wait for longest; and of all what stays
   * unwritten after it, so that nobody waits for that. Each has to be answered, unless all are dropped.
   */
  changes(most: number, now: number): Change[] {
    const changes: Change[] = []
    for (const slice of this.#ahead) {
      const change = slice.untold && !slice.asking ? slice.change(now) : undefined
      if (change) changes.push(change)
      if (slice.unwritten === 0n && !slice.untold) this.#ahead.delete(slice)
    }
    for (const slice of this.#due.splice(0)) {
      if (slice.asking || changes.length >= most) {
        this.#due.push(slice)
        continue
      }
      slice.due = false
      const change = slice.change(now)
      if (change) changes.push(change)
    }
    return changes
  }

  /** Looks after those that nobody uses, some times a second. Returns whether a batch is due for them. */
  look(now: number): boolean {
    for (const [key, slice] of this.#slices)
      if (slice.unused(now)) this.#slices.delete(key)
      else if (slice.ebbs(now)) this.#tell(slice)
    return this.#due.length > 0
  }

  /** The epoch is over, and with it all slices. */
  drop(): void {
    this.#slices.clear()
    this.#ahead.clear()
    this.#present = new WeakSet()
    for (const slice of this.#due.splice(0)) slice.due = false
  }

  #tell(slice: Slice): void {
    if (slice.due) return
    slice.due = true
    this.#due.push(slice)
  }
}

/**
 * How much the database gives, as its function `slice_1` computes it: of `free`, which nobody has, at most a share that
 * leaves half of it if all nodes ask, so that slices shrink towards the end of a budget; and nothing where there is not
 * room enough for requests that it has to decide itself.
 */
export function grantOf(free: bigint, { want, least }: Pick<Change, 'want' | 'least'>, nodes: number): bigint {
  const each = free / BigInt(nodes)
  return each < least || each < 2n ? 0n : smaller(want, each / 2n)
}
