// One timer for all running exchanges or connections. It checks each of them regularly, so that none needs timers of
// its own. Nobody is ended for time in which the event loop stood still, or for what came and was not read yet.
import { Roster } from './roster.ts'
import type { Member } from './roster.ts'

/** An object with time limits. */
export interface Watched extends Member {
  /** Called once per interval while watched. `now`: the {@link Watchdog.time}. Must not throw. */
  check(now: number): void
}

/** The default interval, which is how exact time limits are. */
const watchIntervalMs = 50
/** The most milliseconds that count from one look to the next, unless looks are rarer. */
const longestLook = 500

/** Checks all watched objects once per interval. Costs nothing while there are none. */
export class Watchdog {
  readonly #intervalMs: number
  readonly #watched = new Roster<Watched>()
  #timer: NodeJS.Timeout | undefined
  /** When the timer came last, as `performance.now()`. */
  #cameAt = 0
  /** Milliseconds for which the loop has stood still. */
  #lostMs = 0
  /** The {@link time} of the latest check: a cheap time stamp for frequent events. */
  now = performance.now()

  /** `intervalMs`: time limits are enforced with this precision. */
  constructor(intervalMs = watchIntervalMs) {
    this.#intervalMs = intervalMs
  }

  /**
   * Milliseconds of a clock that stands still with the event loop: meanwhile nobody can be heard or answered. Times
   * that are compared in {@link Watched.check} are of this clock, and of nothing else.
   */
  time(): number {
    return performance.now() - this.#lostMs
  }

  add(watched: Watched): void {
    this.#watched.add(watched)
    if (this.#timer) return
    this.#cameAt = performance.now()
    this.now = this.time()
    this.#timer = setInterval(() => this.#comes(), this.#intervalMs)
    this.#timer.unref()
  }

  /** The timer stops at its next interval, so that a series of short exchanges does not start and stop it for each. */
  delete(watched: Watched): void {
    this.#watched.delete(watched)
  }

  #comes(): void {
    const now = performance.now()
    this.#lostMs += Math.max(0, now - this.#cameAt - Math.max(longestLook, 2 * this.#intervalMs))
    this.#cameAt = now
    this.now = this.time()
    // Timers come before sockets: what has arrived by now is read first.
    setImmediate(this.#look)
  }

  readonly #look = (): void => {
    if (this.#watched.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    for (const watched of this.#watched) watched.check(this.now)
  }
}
