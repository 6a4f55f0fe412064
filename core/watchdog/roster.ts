// A set of things that come and go quickly, kept in an array.

/** What a {@link Roster} can hold: it keeps the member's place in this field, which nobody else touches. */
export interface Member {
  rosterPlace?: number | undefined
}

/**
 * Adds and removes in constant time; iterates in no particular order. A `Set` under such churn replaces its table every
 * few dozen changes, and each discarded table that has grown old keeps alive, until the next full collection, all that
 * was in it: thousands of finished exchanges with their buffers, which made every minor collection take tens of
 * milliseconds. A member is in one roster at a time.
 */
export class Roster<T extends Member> implements Iterable<T> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  /** Does nothing for a member. */
  add(member: T): void {
    if (member.rosterPlace !== undefined) return
    member.rosterPlace = this.#members.length
    this.#members.push(member)
  }

  /** Does nothing for what is no member. */
  delete(member: T): void {
    const place = member.rosterPlace
    if (place === undefined) return
    member.rosterPlace = undefined
    const last = this.#members.pop()!
    if (last === member) return
    last.rosterPlace = place
    this.#members[place] = last
  }

  /** A copy, so that members may leave while it is gone through. */
  [Symbol.iterator](): Iterator<T> {
    return this.#members.slice()[Symbol.iterator]()
  }
}
