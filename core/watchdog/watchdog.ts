// One timer for all running exchanges or connections. It checks each of them regularly, so that none needs timers of
// its own.
import { Roster } from './roster.ts'
import type { Member } from './roster.ts'

/** An object with time limits. */
export interface Watched extends Member {
  /** Called once per interval while watched. `now`: `performance.now()`. Must not throw. */
  check(now: number): void
}

/** The default interval, which is how exact time limits are. */
const watchIntervalMs = 50

/** Checks all watched objects once per interval. Costs nothing while there are none. */
export class Watchdog {
  readonly #intervalMs: number
  readonly #watched = new Roster<Watched>()
  #timer: NodeJS.Timeout | undefined
  /** The `performance.now()` of the latest check: a cheap time stamp for frequent events. */
  now = performance.now()

  /** `intervalMs`: time limits are enforced with this precision. */
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

  /** The timer stops at its next interval, so that a series of short exchanges does not start and stop it for each. */
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
