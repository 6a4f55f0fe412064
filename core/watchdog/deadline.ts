// The end of the time of something that has no watchdog of its own, such as a connection that is being made.
import { Watchdog } from './watchdog.ts'
import type { Watched } from './watchdog.ts'

/** That of all deadlines of this thread. */
const watchdog = new Watchdog()

/**
 * Calls `late` once, unless it is cleared before. As with all that a {@link Watchdog} watches, time in which the event
 * loop stands still does not count, and what has arrived is read first.
 */
export class Deadline implements Watched {
  rosterPlace: number | undefined = undefined
  readonly #ms: number
  readonly #late: () => void
  #until = 0

  constructor(ms: number, late: () => void) {
    this.#ms = ms
    this.#late = late
    this.refresh()
  }

  check(now: number): void {
    if (now <= this.#until) return
    this.clear()
    this.#late()
  }

  /** Begins anew. */
  refresh(): void {
    watchdog.add(this)
    this.#until = watchdog.time() + this.#ms
  }

  /** A second call does nothing. */
  clear(): void {
    watchdog.delete(this)
  }
}
