// What keeps a database from growing for ever: chores of the writer thread, in slices between the segments that it
// applies.
import type { Committer } from './committer.ts'
import { Forgetting } from './forgetting.ts'
import { Retention } from './retention.ts'
import type { Bounds } from './retention.ts'
import { ShelfLife } from './shelf-life.ts'
import { Sealing } from './sealing.ts'
import type { JournalBounds } from './sealing.ts'
import { isLow, keepSpare } from './spare.ts'
import { volumeFolder } from './volume.ts'
import type { Volume } from './volume.ts'

/** What is kept. */
export interface Keeping {
  requests: Bounds
  /** What is beyond is sealed in volumes. */
  journal: JournalBounds
  /** Undefined: all of them. */
  answers?: Bounds | undefined
  /**
   * Milliseconds after a start in which nothing goes for its age: a clock that is wrong then is mostly put right within
   * them.
   */
  patience: number
}

/** Of the thread's time, a slice is followed by so many times its length for others. */
const rest = 4
/** Milliseconds between two tries to keep room for a full disk. */
const sparing = 60_000
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
  /** Records were let go of before their time, as the disk is nearly full. */
  relieved(): void
}

/** The upkeep of one thread. */
export class Upkeep {
  #keeping: Keeping
  readonly #file: string
  #spared = -Infinity
  readonly #host: UpkeepHost
  /** Unix milliseconds of the start, by performance.now(), and how far Date.now() was off then. */
  readonly #start: number
  readonly #began = performance.now()
  readonly #skew: number
  #retention: Retention | undefined
  #chores: { slice(now: number): boolean; stop?(): void }[] = []
  #timer: NodeJS.Timeout | undefined
  #ailing = false

  /** `file`: the database. `start`: Unix milliseconds, now. */
  constructor(keeping: Keeping, file: string, start: number, host: UpkeepHost) {
    this.#keeping = keeping
    this.#file = file
    this.#start = start
    this.#skew = start - Date.now()
    this.#host = host
  }

  /** There is a connection to work with, until the next {@link Upkeep.stop}; does nothing when it has one. */
  begin(committer: Committer): void {
    if (this.#chores.length > 0) return
    const { requests, journal, answers } = this.#keeping
    this.#retention = new Retention(committer, requests)
    this.#chores = [
      this.#retention,
      new Sealing(committer, volumeFolder(this.#file), journal, (volume) => this.#host.sealed(volume)),
      new Forgetting(committer)
    ]
    if (answers) this.#chores.push(new ShelfLife(committer, answers))
    this.#again(this.#ailing ? sulk : leisure)
  }

  /**
   * Makes room in a database that has filled its disk: the oldest records go, and are not missed again. Returns whether
   * there were any.
   */
  relieve(committer: Committer): boolean {
    this.begin(committer)
    const relieved = this.#retention!.relieve()
    this.#keeping = { ...this.#keeping, requests: this.#retention!.bounds }
    return relieved
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
      if (!more) this.#look(began)
      this.#again(more ? rest * (performance.now() - began) : leisure)
      if (this.#ailing) this.#host.healed()
      this.#ailing = false
    } catch (error) {
      this.#ailing = true
      this.stop()
      this.#host.failed(error)
    }
  }

  /** A disk that gets full is not waited for: what is kept has no use in a store that cannot go on. */
  #look(now: number): void {
    const retention = this.#retention!
    if (isLow(this.#file) && retention.cramped && retention.relieve()) {
      this.#keeping = { ...this.#keeping, requests: retention.bounds }
      this.#host.relieved()
    }
    if (now - this.#spared > sparing && !keepSpare(this.#file)) this.#spared = now
  }

  /** By the time that has passed, and not by a clock that jumped ahead meanwhile; 0 at first. */
  #now(): number {
    const passed = performance.now() - this.#began
    return passed < this.#keeping.patience ? 0 : Math.min(this.#start + passed, Date.now() + this.#skew)
  }
}
