// What keeps a database from growing for ever: chores of the writer thread, in slices between the segments that it applies.
import type { Committer } from './committer.ts'
import { Retention } from './retention.ts'
import type { Bounds } from './retention.ts'

/** What is kept. */
export interface Keeping {
  requests: Bounds
  /** Milliseconds after a start in which nothing goes for its age: a clock that is wrong then is mostly put right within them. */
  patience: number
}

/** Of the thread's time, a slice is followed by so many times its length for others. */
const rest = 4
/** Milliseconds between two looks for work when there was none, and after a failure. */
const leisure = 1000
const sulk = 10_000

/** The upkeep of one thread. */
export class Upkeep {
  readonly #keeping: Keeping
  readonly #tell: (error: unknown) => void
  /** Unix milliseconds of the start, by performance.now(), and how far Date.now() was off then. */
  readonly #start: number
  readonly #began = performance.now()
  readonly #skew: number
  #retention: Retention | undefined
  #timer: NodeJS.Timeout | undefined
  #ailing = false

  /** `start`: Unix milliseconds, now. `tell` is told when a slice threw, and with undefined when one did not after that. */
  constructor(keeping: Keeping, start: number, tell: (error: unknown) => void) {
    this.#keeping = keeping
    this.#start = start
    this.#skew = start - Date.now()
    this.#tell = tell
  }

  /** There is a connection to work with, until the next {@link Upkeep.stop}; does nothing when it has one. */
  begin(committer: Committer): void {
    if (this.#retention) return
    this.#retention = new Retention(committer, this.#keeping.requests)
    this.#again(this.#ailing ? sulk : leisure)
  }

  /** The connection is not to be used any more. */
  stop(): void {
    this.#retention = undefined
    clearTimeout(this.#timer)
  }

  #again(delay: number): void {
    this.#timer = setTimeout(this.#slice, delay).unref()
  }

  readonly #slice = (): void => {
    const began = performance.now()
    try {
      const more = this.#retention!.slice(this.#now())
      this.#again(more ? rest * (performance.now() - began) : leisure)
      if (this.#ailing) this.#tell(undefined)
      this.#ailing = false
    } catch (error) {
      this.#ailing = true
      this.stop()
      this.#tell(error)
    }
  }

  /** By the time that has passed, and not by a clock that jumped ahead meanwhile; 0 at first. */
  #now(): number {
    const passed = performance.now() - this.#began
    return passed < this.#keeping.patience ? 0 : Math.min(this.#start + passed, Date.now() + this.#skew)
  }
}
