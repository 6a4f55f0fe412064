// What the simulator keeps from one request for others.
import { hash, randomBytes } from 'node:crypto'
import type { Fields } from './fields.ts'
import type { Job } from './jobs/job.ts'
import type { KeptResponse } from './openai/responses/kept.ts'
import { Shelf } from './shelf.ts'
import type { Counts, Stats } from './stats.ts'

/** One is made for each simulator. */
export class State {
  readonly jobs = new Shelf<Job>()
  readonly responses = new Shelf<KeptResponse>()
  /** Output items of kept responses. */
  readonly items = new Shelf<Fields & { readonly id: string }>()
  readonly #stats: Stats
  /** Makes ids differ from those of earlier runs, which clients may still know. */
  readonly #run = randomBytes(8).toString('hex')
  readonly #timers = new Set<NodeJS.Timeout>()
  #serial = 0

  constructor(stats: Stats) {
    this.#stats = stats
  }

  /** An id that has not been used before. */
  newId(prefix: string): string {
    return prefix + hash('sha1', `${this.#run} ${++this.#serial}`).slice(0, 32)
  }

  /** Adds work to the statistics that ended after its request was answered. */
  count(counts: Counts, requestId: string | undefined): void {
    this.#stats.count(counts, requestId)
  }

  /** Calls back after `ms` milliseconds, unless the simulator is closed before. */
  after(ms: number, call: () => void): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        call()
      },
      Math.max(ms, 1)
    )
    this.#timers.add(timer.unref())
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
  }
}
