// The upkeep: keeps the database from growing for ever. Whoever writes the database runs it in short slices between
// the segments that are applied.
import type { Committer } from '../database/committer.ts'
import { Forgetting } from './forgetting.ts'
import { PastHours } from './past-hours.ts'
import { PastTraffic } from './past-traffic.ts'
import { Retention } from './retention.ts'
import type { Bounds } from './retention.ts'
import { ShelfLife } from './shelf-life.ts'
import { Sealing } from './sealing.ts'
import { Slices } from './slices.ts'
import type { JournalBounds } from './sealing.ts'
import { isLow, keepSpare } from '../files/spare.ts'
import { volumeFolder } from '../journal/volume.ts'
import type { Volume } from '../journal/volume.ts'

/** The entries of a sealed volume of the journal, which is about 4 MB. */
export const volumeRows = 65_536

/** How much is kept of what grows. */
export interface Keeping {
  requests: Bounds
  /** The rows beyond these bounds are sealed in volumes. */
  journal: JournalBounds
  /** Undefined: all answers are kept. */
  answers?: Bounds | undefined
  /**
   * How long after a start nothing is deleted for its age, in milliseconds. A clock that is wrong at the start is
   * usually corrected by then.
   */
  patience: number
  /**
   * Of a journal in segments: milliseconds from the deletion of a row to that of its record. Default: an hour.
   */
  lag?: number | undefined
}

/** Milliseconds between two attempts to make the spare file. */
const sparing = 60_000

/** The owner of an upkeep, which is told about its results. */
export interface UpkeepHost {
  /** A slice threw. The connection must be closed, and the upkeep waits for the next one. */
  failed(error: unknown): void
  /** A slice succeeded after one that threw. */
  healed(): void
  sealed(volume: Volume): void
  /** Records were deleted early because the disk is nearly full. */
  relieved(): void
}

/** The upkeep of one store. */
export class Upkeep {
  #keeping: Keeping
  readonly #file: string
  #spared = -Infinity
  readonly #host: UpkeepHost
  /** The time of the start in Unix milliseconds, and how far Date.now() differed from it then. */
  readonly #start: number
  readonly #began = performance.now()
  readonly #skew: number
  #retention: Retention | undefined
  #chores: { slice(now: number): boolean; stop?(): void }[] = []
  readonly #slices: Slices

  /** `file` is the database. `start` is the current time in Unix milliseconds. */
  constructor(keeping: Keeping, file: string, start: number, host: UpkeepHost) {
    this.#keeping = keeping
    this.#file = file
    this.#start = start
    this.#skew = start - Date.now()
    this.#host = host
    this.#slices = new Slices({
      slice: () => this.#slice(),
      failed: (error) => {
        this.stop()
        host.failed(error)
      },
      healed: () => host.healed()
    })
  }

  /** Takes a connection, until the next {@link Upkeep.stop}. Does nothing when it has one. */
  begin(committer: Committer): void {
    if (this.#chores.length > 0) return
    const { requests, journal, answers } = this.#keeping
    this.#retention = new Retention(committer, requests)
    this.#chores = [
      this.#retention,
      // A journal in segments has volumes of its own.
      ...(committer.readSide
        ? []
        : [new Sealing(committer, volumeFolder(this.#file), journal, (volume) => this.#host.sealed(volume))]),
      new Forgetting(committer),
      new PastHours(committer),
      new PastTraffic(committer)
    ]
    if (answers) this.#chores.push(new ShelfLife(committer, answers))
    this.#slices.begin()
  }

  /**
   * Makes room in a database that filled its disk: deletes the oldest records, and keeps fewer from then on. Returns
   * whether there were any.
   */
  relieve(committer: Committer): boolean {
    this.begin(committer)
    const relieved = this.#retention!.relieve()
    this.#keeping = { ...this.#keeping, requests: this.#retention!.bounds }
    return relieved
  }

  /** Gives up the connection, which is not used any more. */
  stop(): void {
    for (const chore of this.#chores) chore.stop?.()
    this.#chores = []
    this.#slices.stop()
  }

  #slice(): boolean {
    const now = this.#now()
    const more = this.#chores.some((chore) => chore.slice(now))
    if (!more) this.#look()
    return more
  }

  /**
   * Makes room before the disk is full, because old records are of no use in a store that cannot continue. Makes the
   * spare file if it is missing.
   */
  #look(): void {
    const now = performance.now()
    const retention = this.#retention!
    if (isLow(this.#file) && retention.cramped && retention.relieve()) {
      this.#keeping = { ...this.#keeping, requests: retention.bounds }
      this.#host.relieved()
    }
    if (now - this.#spared > sparing && !keepSpare(this.#file)) this.#spared = now
  }

  /**
   * The current time in Unix milliseconds, or 0 at first, so that nothing is too old. It follows the time that has
   * passed since the start, so a clock that jumps ahead has no effect.
   */
  #now(): number {
    const passed = performance.now() - this.#began
    return passed < this.#keeping.patience ? 0 : Math.min(this.#start + passed, Date.now() + this.#skew)
  }
}
