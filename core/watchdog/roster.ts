// A set for objects that come and go quickly, kept in an array.

/** What a {@link Roster} can hold. Only the roster may use this field: it holds the member's place. */
export interface Member {
  rosterPlace?: number | undefined
}

/**
 * A set that adds and removes in constant time, and iterates in no particular order. A `Set` with so many changes
 * replaces its table every few dozen of them. A discarded table that has reached the old space keeps everything in it
 * alive until the next full collection: thousands of finished exchanges with their buffers, which made every minor
 * collection take tens of milliseconds. An object may be in one roster at a time.
 */
export class Roster<T extends Member> implements Iterable<T> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  /** Does nothing when the object is a member already. */
  add(member: T): void {
    if (member.rosterPlace !== undefined) return
    member.rosterPlace = this.#members.length
    this.#members.push(member)
  }

  /** Does nothing when the object is not a member. */
  delete(member: T): void {
    const place = member.rosterPlace
    if (place === undefined) return
    member.rosterPlace = undefined
    const last = this.#members.pop()!
    if (last === member) return
    last.rosterPlace = place
    this.#members[place] = last
  }

  /** Iterates over a copy, so that members may be removed during the iteration. */
  [Symbol.iterator](): Iterator<T> {
    return this.#members.slice()[Symbol.iterator]()
  }
}
