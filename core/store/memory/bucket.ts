// One rate of a set of limits: how much of it is used, and when the next unit fits.
import type { CountedSet, LimitName, LimitState } from '../limits.ts'

/** The windows of rates, in microseconds. */
export const second = 1_000_000
export const minute = 60 * second

/**
 * The generic cell rate algorithm in its form as a leaky bucket (ITU-T I.371, annex A): what is taken fills the bucket,
 * and leaks out at the limit's rate. The content is counted in units × window, so that whole limits lead to whole
 * numbers throughout, a change of the limit leaves the content as it is, and only what is shown is rounded.
 */
export class Bucket {
  readonly #window: number
  /** In units × microseconds of the window. */
  content: number
  /** Units per window, which is also how much of the content leaks in a microsecond. */
  #limit: number
  #at: number

  constructor(window: number, limit: number, now: number, content = 0) {
    this.#window = window
    this.#limit = limit
    this.#at = now
    this.content = content
  }

  /** What makes another bucket like this one at this time. */
  kept(now: number): { content: number; limit: number } {
    this.leak(now)
    return { content: this.content, limit: this.#limit }
  }

  /** Takes over what {@link Bucket.write} has written; three zeros are a bucket that nothing was taken from. */
  read(from: Float64Array, at: number): void {
    this.content = from[at]!
    this.#limit = from[at + 1]!
    this.#at = from[at + 2]!
  }

  /** Writes the state into an array, which others may have too, in three places from `at` on. */
  write(to: Float64Array, at: number): void {
    to[at] = this.content
    to[at + 1] = this.#limit
    to[at + 2] = this.#at
  }

  /** The units of a whole window fit, so that they may be spent in one burst; at least one unit. */
  #capacity(): number {
    return Math.max(this.#limit, 1) * this.#window
  }

  leak(now: number): void {
    this.content = Math.max(0, this.content - (now - this.#at) * this.#limit)
    this.#at = now
  }

  /** Brings the bucket to `now`, and to a limit that may have changed. */
  turn(now: number, limit: number): void {
    this.leak(now)
    this.#limit = limit
    // What was allowed under a larger limit must not lock anybody out for many windows of the smaller one.
    this.content = Math.min(this.content, 2 * this.#capacity())
  }

  /** Microseconds until `units` fit; 0 when they fit now. */
  wait(units: number): number {
    const excess = this.content + units * this.#window - this.#capacity()
    return Math.max(0, Math.ceil(excess / this.#limit))
  }

  take(units: number): void {
    this.content += units * this.#window
  }

  /**
   * Replaces the `expected` units by the `used` ones. They were taken `elapsed` microseconds ago, when the content rose
   * to `level`. What has leaked of them since is not given back: the oldest content leaks first. The content never
   * exceeds twice the capacity, so a debt is paid off within two windows.
   */
  correct(expected: number, used: number, level: number, elapsed: number): void {
    const left = Math.min(expected * this.#window, Math.max(0, level - elapsed * this.#limit))
    const change = Math.max((used - expected) * this.#window, -left)
    this.content = Math.max(0, Math.min(this.content + change, 2 * this.#capacity()))
  }

  state<S extends CountedSet>(set: S, name: LimitName): LimitState<S> {
    return {
      set,
      name,
      limit: this.#limit,
      remaining: Math.max(0, Math.floor((this.#capacity() - this.content) / this.#window)),
      resetMs: Math.ceil(this.content / this.#limit / 1000)
    }
  }
}
