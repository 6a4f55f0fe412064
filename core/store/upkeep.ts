// What keeps a database from growing for ever: chores of the writer thread, in slices between the segments that it applies.
import type { Committer } from './committer.ts'
import { Retention } from './retention.ts'
import type { Bounds } from './retention.ts'
import { Sealing } from './sealing.ts'
import type { JournalBounds } from './sealing.ts'
import type { Volume } from './volume.ts'

/** What is kept. */
export interface Keeping {
  requests: Bounds
  /** What is beyond is sealed in volumes. */
  journal: JournalBounds
  /** Milliseconds after a start in which nothing goes for its age: a clock that is wrong then is mostly put right within them. */
  patience: number
}

/** Of the thread's time, a slice is followed by so many times its length for others. */
const rest = 4
/** Milliseconds between two looks for work when there was none, and after a failure. */
const leisure = 1000
const sulk = 10_000

/** Told of what comes of it. */
export interface UpkeepHost {
  /** A slice threw: neither the connection nor the upkeep may use it again until there is another. */
  failed(error: unknown): void
  /** A slice did not throw, after one that did. */
  healed(): void
  sealed(volume: Volume): void
}

/** The upkeep of one thread. */
export class Upkeep {
  readonly #keeping: Keeping
  readonly #folder: string
  readonly #host: UpkeepHost
  /** Unix milliseconds of the start, by performance.now(), and how far Date.now() was off then. */
  readonly #start: number
  readonly #began = performance.now()
  readonly #skew: number
  #chores: { slice(now: number): boolean; stop?(): void }[] = []
  #timer: NodeJS.Timeout | undefined
  #ailing = false

  /** `folder`: for volumes. `start`: Unix milliseconds, now. */
  constructor(keeping: Keeping, folder: string, start: number, host: UpkeepHost) {
    this.#keeping = keeping
    this.#folder = folder
    this.#start = start
    this.#skew = start - Date.now()
    this.#host = host
  }

  /** There is a connection to work with, until the next {@link Upkeep.stop}; does nothing when it has one. */
  begin(committer: Committer): void {
    if (this.#chores.length > 0) return
    const { requests, journal } = this.#keeping
    this.#chores = [new Retention(committer, requests), new Sealing(committer, this.#folder, journal, (volume) => this.#host.sealed(volume))]
    this.#again(this.#ailing ? sulk : leisure)
  }

  /** The connection is not to be used any more. */
  stop(): void {
    for (const chore of this.#chores) chore.stop?.()
    this.#chores = []
    clearTimeout(this.#timer)
  }

  #again(delay: number): void {
    this.#timer = setTimeout(this.#slice, delay).unref()
  }

  readonly #slice = (): void => {
    const began = performance.now()
    try {
      const now = this.#now()
      const more = this.#chores.some((chore) => chore.slice(now))
      this.#again(more ? rest * (performance.now() - began) : leisure)
      if (this.#ailing) this.#host.healed()
      this.#ailing = false
    } catch (error) {
      this.#ailing = true
      this.stop()
      this.#host.failed(error)
    }
  }

  /** By the time that has passed, and not by a clock that jumped ahead meanwhile; 0 at first. */
  #now(): number {
    const passed = performance.now() - this.#began
    return passed < this.#keeping.patience ? 0 : Math.min(this.#start + passed, Date.now() + this.#skew)
  }
}
