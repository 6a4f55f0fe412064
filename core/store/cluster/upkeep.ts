// Removes what is over, now and then. Every gateway does it, and what one is removing others leave alone.
import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseClock } from './database/clock.ts'

/** How often it is looked, in milliseconds. */
const usualPause = 300_000
/** The most slices of one kind that a look removes, so that no look goes on for ever. */
const mostSlices = 1000

/** Removes some of what is over; returns whether there may be more. */
export type Sweep = () => Promise<boolean>

/** The upkeep of one gateway. */
export class Upkeep {
  readonly #clock: Pick<DatabaseClock, 'compare' | 'agrees'>
  readonly #sweeps: readonly Sweep[]
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>

  /** Looks for the first time after a pause. `pause`: milliseconds. */
  constructor(clock: Pick<DatabaseClock, 'compare' | 'agrees'>, sweeps: readonly Sweep[], pause = usualPause) {
    this.#clock = clock
    this.#sweeps = sweeps
    this.#loop = this.#follow(pause)
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  async #follow(pause: number): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await sleep(pause * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {})
      for (const sweep of this.#sweeps) {
        try {
          await this.#clock.compare()
          // What is over by one clock alone may not be over.
          if (!this.#clock.agrees) break
          for (let i = 0; i < mostSlices && !signal.aborted && (await sweep()); i++);
        } catch {
          // What cannot be removed now is removed at the next look.
        }
      }
    }
  }
}
