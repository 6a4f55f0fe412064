// One timer for all running exchanges, or all connections: looks at each now and then, so that none needs timers of its
// own.
import { Roster } from './roster.ts'
import type { Member } from './roster.ts'

/** Something with time limits. */
export interface Watched extends Member {
  /** Called on every turn while watched; `now` is `performance.now()`. Must not throw. */
  check(now: number): void
}

/** How exact time limits are. */
const watchIntervalMs = 50

/** Holds everything that has a limit. Costs nothing while empty. */
export class Watchdog {
  readonly #intervalMs: number
  readonly #watched = new Roster<Watched>()
  #timer: NodeJS.Timeout | undefined
  /** `performance.now()` of the latest turn: a time stamp for things that happen per event, at no cost. */
  now = performance.now()

  /** Time limits are kept to within the interval. */
  constructor(intervalMs = watchIntervalMs) {
    this.#intervalMs = intervalMs
  }

  add(watched: Watched): void {
    this.#watched.add(watched)
    if (this.#timer) return
    this.now = performance.now()
    this.#timer = setInterval(() => this.#turn(), this.#intervalMs)
    this.#timer.unref()
  }

  /** The timer itself stops at its next turn: short exchanges one after another would start and stop it each time. */
  delete(watched: Watched): void {
    this.#watched.delete(watched)
  }

  #turn(): void {
    this.now = performance.now()
    if (this.#watched.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    for (const watched of this.#watched) watched.check(this.now)
  }
}
