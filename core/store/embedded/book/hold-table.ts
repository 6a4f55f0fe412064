// The holds whose end is not on disk, by request and part: a table whose places are used again.

/** What a {@link HoldTable} can hold, in one table at a time. */
export interface Entered {
  readonly requestId: string
  readonly part: string
  /** Only the table may use this field: it holds the next one in the same place. */
  tableNext?: this | undefined
}

/** The fewest places of a table; always a power of two. */
const leastPlaces = 1024

/**
 * Holds come and go with every request, and a `Map` replaces its table every few dozen of them. A discarded table that
 * has reached the old space keeps the holds that were in it alive, and each table that was made after it, until the
 * next full collection. So this one has places that stay, and makes nothing for a hold.
 */
export class HoldTable<T extends Entered> implements Iterable<T> {
  #places: (T | undefined)[] = Array<T | undefined>(leastPlaces).fill(undefined)
  #size = 0

  /** The hold of a part of a request. */
  get(requestId: string, part: string): T | undefined {
    let hold = this.#places[this.#placeOf(requestId)]
    while (hold && (hold.requestId !== requestId || hold.part !== part)) hold = hold.tableNext
    return hold
  }

  /** Whether a request has a hold, whatever its part. */
  has(requestId: string): boolean {
    let hold = this.#places[this.#placeOf(requestId)]
    while (hold && hold.requestId !== requestId) hold = hold.tableNext
    return hold !== undefined
  }

  /** There must be none of the same request and part. */
  add(hold: T): void {
    if (this.#size === this.#places.length) this.#grow()
    this.#size++
    this.#enter(hold)
  }

  /** Does nothing when the hold is not there. */
  delete(hold: T): void {
    const place = this.#placeOf(hold.requestId)
    let before: T | undefined
    let one = this.#places[place]
    for (; one && one !== hold; one = one.tableNext) before = one
    if (!one) return
    if (before) before.tableNext = hold.tableNext
    else this.#places[place] = hold.tableNext
    hold.tableNext = undefined
    this.#size--
  }

  /** In no particular order. None may come or go meanwhile. */
  *[Symbol.iterator](): Iterator<T> {
    for (const first of this.#places) for (let hold = first; hold; hold = hold.tableNext) yield hold
  }

  #enter(hold: T): void {
    const place = this.#placeOf(hold.requestId)
    hold.tableNext = this.#places[place]
    this.#places[place] = hold
  }

  #grow(): void {
    const all = [...this]
    this.#places = Array<T | undefined>(this.#places.length * 2).fill(undefined)
    for (const hold of all) this.#enter(hold)
  }

  /** By the last characters, which are random in the ids of exchanges. */
  #placeOf(requestId: string): number {
    let hash = 0
    for (let i = Math.max(0, requestId.length - 8); i < requestId.length; i++)
      hash = (Math.imul(hash, 31) + requestId.charCodeAt(i)) | 0
    return (hash ^ (hash >>> 15)) & (this.#places.length - 1)
  }
}
