// What the simulator keeps between requests: everything that one request makes and another reads.
import { hash, randomBytes } from 'node:crypto'
import type { Fields } from './fields.ts'
import type { Job } from './jobs/job.ts'
import type { KeptResponse } from './openai/responses/kept.ts'
import { Shelf } from './shelf.ts'
import type { Counts, Stats } from './stats.ts'

/** One for each simulator. */
export class State {
  readonly jobs = new Shelf<Job>()
  readonly responses = new Shelf<KeptResponse>()
  /** What kept responses have put out. */
  readonly items = new Shelf<Fields & { readonly id: string }>()
  readonly #stats: Stats
  /** Ids of another run must not come again: somebody may still know them. */
  readonly #run = randomBytes(8).toString('hex')
  readonly #timers = new Set<NodeJS.Timeout>()
  #serial = 0

  constructor(stats: Stats) {
    this.#stats = stats
  }

  /** An id that nothing else has had. */
  newId(prefix: string): string {
    return prefix + hash('sha1', `${this.#run} ${++this.#serial}`).slice(0, 32)
  }

  /** Counts what was finished after its request was answered. */
  count(counts: Counts, requestId: string | undefined): void {
    this.#stats.count(counts, requestId)
  }

  /** Calls so many milliseconds from now, unless the simulator is closed before. */
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
