// How long the place of a worker stays empty: longer each time, where one ends soon after the other.

const shortest = 100
const longest = 30_000
/** A worker that has served for so long is not counted as one that ended soon, in milliseconds. */
const well = 60_000

/** The pauses of all places. */
export class Pauses {
  readonly #shortest: number
  readonly #now: () => number
  readonly #places = new Map<number, { pause: number; began: number | undefined }>()

  /** `first`: milliseconds of the first pause. `now`: of a clock that never goes back. */
  constructor(first = shortest, now: () => number = () => performance.now()) {
    this.#shortest = first
    this.#now = now
  }

  /** The worker of a place serves. */
  began(number: number): void {
    const place = this.#places.get(number)
    this.#places.set(number, { pause: place?.pause ?? 0, began: this.#now() })
  }

  /** The worker of a place has ended. Returns how long the place stays empty, in milliseconds. */
  next(number: number): number {
    const { pause, began } = this.#places.get(number) ?? { pause: 0, began: undefined }
    const soon = began === undefined || this.#now() - began < well
    const next = soon && pause > 0 ? Math.min(longest, 2 * pause) : this.#shortest
    this.#places.set(number, { pause: next, began: undefined })
    return next
  }
}
