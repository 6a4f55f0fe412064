// Work that was taken over, while what belongs to it is brought here: until then nobody may see it end.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../telling/log.ts'
import type { Work } from '../../works.ts'
import type { HeldWork } from './ownership.ts'

/** The first and the longest pause between two attempts to bring what belongs to work, in milliseconds. */
const [firstPause, longestPause] = [500, 15_000]

/** What some of the work that was taken over waits for. */
export interface Delay {
  /** How much waits for it after an attempt that failed. */
  readonly count: number
  /** When the first attempt failed, in Unix milliseconds. */
  readonly since: number
  /** Why the last attempt failed. */
  readonly error: string
}

/** The work that arrives at one gateway, by its name. */
export class Arrivals {
  readonly #log: Logger
  readonly #bring: (work: Work) => Promise<unknown>
  readonly #held = new Map<string, HeldWork>()
  /** Those of which an attempt failed. */
  readonly #failing = new Set<string>()
  #delay: { since: number; error: string } | undefined

  /** `bring` is called again when it rejects. */
  constructor(log: Logger, bring: (work: Work) => Promise<unknown>) {
    this.#log = log
    this.#bring = bring
  }

  /** How much of it there is. */
  get size(): number {
    return this.#held.size
  }

  has(name: string): boolean {
    return this.#held.has(name)
  }

  get held(): Iterable<HeldWork> {
    return this.#held.values()
  }

  /** Undefined when nothing failed, or what failed is here or lost. */
  get delay(): Delay | undefined {
    return this.#delay && { ...this.#delay, count: this.#failing.size }
  }

  /** Resolves with true when what belongs to it is here, or with false when it was lost before. */
  async arrive(name: string, work: Work, held: HeldWork): Promise<boolean> {
    this.#held.set(name, held)
    for (let pause = firstPause; this.#held.get(name) === held; pause = Math.min(pause * 2, longestPause)) {
      try {
        await this.#bring(work)
        break
      } catch (error) {
        if (this.#held.get(name) === held) this.#fail(name, work, (error as Error).message)
      }
      await sleep(pause * (0.75 + Math.random() / 2), undefined, { ref: false })
    }
    if (this.#held.get(name) !== held) return false
    this.lose(name)
    return true
  }

  /** It is another gateway's, or has ended. */
  lose(name: string): void {
    this.#held.delete(name)
    this.#failing.delete(name)
    if (!this.#delay || this.#failing.size > 0) return
    this.#log.info('what belongs to work that was taken over is here again', {
      seconds: Math.round((Date.now() - this.#delay.since) / 1000)
    })
    this.#delay = undefined
  }

  /** Ends it: nothing arrives any more. */
  close(): void {
    this.#held.clear()
    this.#failing.clear()
    this.#delay = undefined
  }

  #fail(name: string, { id, requestId }: Work, error: string): void {
    this.#failing.add(name)
    if (!this.#delay)
      this.#log.warn('what belongs to work that was taken over cannot be brought here, so the work waits', {
        work: id,
        exchange: requestId,
        error
      })
    this.#delay = { since: this.#delay?.since ?? Date.now(), error }
  }
}
