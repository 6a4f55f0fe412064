// What a request has taken of limits that are shared, for as long as it runs in this process.
import type { Lease } from '../../limits.ts'
import type { TakenAt } from './figures.ts'

/** A slot of a set that limits concurrency. */
export interface HeldSlot {
  /** The id of the set. */
  readonly set: string
  readonly home: string
  /** Where Redis keeps the slots of the set. */
  readonly key: string
}

/** Called once, when the lease ends. */
type Ended = (lease: SharedLease, unseen: boolean) => void

/** One request's lease. Its slots are renewed until it is released. */
export class SharedLease implements Lease {
  /** By which Redis knows its slots: unique over nodes and their starts. */
  readonly id: string
  readonly slots: readonly HeldSlot[]
  rosterPlace: number | undefined = undefined
  /** What Redis counts of it: undefined until its answer came. */
  taken: TakenAt | undefined
  /** What it has of the limits in memory while Redis is gone. */
  local: Lease | undefined
  /** Whether Redis may know of it. */
  told = false
  released = false
  /** As told at the release, until Redis is told. */
  used: number | undefined
  readonly #ended: Ended

  constructor(id: string, slots: readonly HeldSlot[], ended: Ended) {
    this.id = id
    this.slots = slots
    this.#ended = ended
  }

  release(used: number | undefined, unseen = false): void {
    if (this.released) return
    this.released = true
    this.used = used
    this.local?.release(used)
    this.local = undefined
    this.#ended(this, unseen)
  }
}
