// The batches of the last minutes, for the case that a server takes over which lacks some of them.
import type { Queue } from './operations.ts'

/** How long a batch is kept, in milliseconds, and how many operations are at most. */
const [keptFor, most] = [120_000, 50_000]

/** How far a node has come: the last batch of an epoch that it began. */
export interface Standing {
  readonly epoch: number
  readonly batch: number
}

/** Whether one is less far than another. */
export function behind(one: Standing, other: Standing): boolean {
  return one.epoch < other.epoch || (one.epoch === other.epoch && one.batch < other.batch)
}

/** What was answered in the last minutes. */
export class Recent {
  #kept: { readonly at: Standing; readonly time: number; readonly work: Queue }[] = []
  #size = 0
  /** The last batch that was dropped. */
  #dropped: Standing = { epoch: 0, batch: 0 }

  /** A batch was answered. `work`: what is to be done where it is lost. */
  keep(at: Standing, work: Queue, now = performance.now()): void {
    if (work.size === 0) return
    this.#kept.push({ at, time: now, work })
    this.#size += work.size
    let over = 0
    for (const one of this.#kept) {
      if (this.#size <= most && now - one.time <= keptFor) break
      this.#size -= one.work.size
      this.#dropped = one.at
      over++
    }
    this.#kept.splice(0, over)
  }

  /**
   * Takes out what a database lacks that is as far as `standing`, in its order. `whole`: whether nothing is missing
   * before it. What it has is forgotten, too: numbers begin again.
   */
  take(standing: Standing): { readonly lost: readonly Queue[]; readonly whole: boolean } {
    const lost = this.#kept.filter(({ at }) => behind(standing, at)).map(({ work }) => work)
    const whole = !behind(standing, this.#dropped)
    this.#kept = []
    this.#size = 0
    this.#dropped = { epoch: 0, batch: 0 }
    // The log of the node was freed when the database had them.
    for (const { ends } of lost) for (const end of ends) end.logged = false
    return { lost, whole }
  }
}
