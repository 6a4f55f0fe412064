// Sums of money by scope and window, into which rows of the journal and holds are spread.
import { hour, overAt, windowsOf } from '../../window.ts'
import type { Spans } from '../../window.ts'
import type { Batch } from '../rows/batch.ts'

/** What one scope has in one window, in nano-dollars. */
export interface Sum {
  readonly scope: string
  readonly window: string
  /** What was charged. */
  posted: bigint
  /** What is held. */
  pending: bigint
  /** The limit of the latest request that it let in; undefined where none was written, or it was taken away. */
  limit: bigint | undefined
}

/** How many amounts wait to be spread at most. */
const mostWaiting = 4096

/** An amount that is not spread yet. All rows of the same scopes and hour count in the same windows. */
interface Waiting {
  readonly scopes: string
  readonly time: number
  readonly hour: number
  posted: bigint
  pending: bigint
}

/** Sums that are made as they are asked for. */
export class Sums implements Iterable<Sum> {
  /** By window and scope: there are few windows, so those that are over are found at once. */
  readonly #sums = new Map<string, Map<string, Sum>>()
  /** What was added last, by the text of the scopes: adding up first spares a change of each of eight sums. */
  readonly #waiting = new Map<string, Waiting>()

  /** The sum of a scope in a window. Its amounts lack what is not spread yet: iterate to read them. */
  of(scope: string, window: string): Sum {
    let scopes = this.#sums.get(window)
    if (!scopes) this.#sums.set(window, (scopes = new Map()))
    let sum = scopes.get(scope)
    if (!sum) scopes.set(scope, (sum = { scope, window, posted: 0n, pending: 0n, limit: undefined }))
    return sum
  }

  /** Adds amounts of a row. `scopes` as stored, `time` in Unix milliseconds: no window ends within an hour. */
  add(scopes: string, time: number, posted: bigint, pending: bigint): void {
    const of = Math.floor(time / hour)
    let waiting = this.#waiting.get(scopes)
    if (waiting?.hour !== of) {
      if (waiting) this.#spread(waiting)
      else if (this.#waiting.size >= mostWaiting) this.#spreadAll()
      this.#waiting.set(scopes, (waiting = { scopes, time, hour: of, posted: 0n, pending: 0n }))
    }
    waiting.posted += posted
    waiting.pending += pending
  }

  /** The sums as changes of balances. */
  moves(): Batch['moves'] {
    return [...this].flatMap(({ scope, window, posted, pending }) => [scope, window, posted, pending])
  }

  *[Symbol.iterator](): Generator<Sum> {
    this.#spreadAll()
    for (const scopes of this.#sums.values()) yield* scopes.values()
  }

  /** The sums of windows that ended by a time in Unix milliseconds. They may be deleted meanwhile. */
  *over(time: number): Generator<Sum> {
    for (const [scopes, waiting] of this.#waiting)
      if ((waiting.hour + 1) * hour <= time) {
        this.#spread(waiting)
        this.#waiting.delete(scopes)
      }
    for (const [window, scopes] of this.#sums) if ((overAt(window) ?? Infinity) <= time) yield* scopes.values()
  }

  delete({ scope, window }: Sum): void {
    const scopes = this.#sums.get(window)
    scopes?.delete(scope)
    if (scopes?.size === 0) this.#sums.delete(window)
  }

  #spreadAll(): void {
    for (const waiting of this.#waiting.values()) this.#spread(waiting)
    this.#waiting.clear()
  }

  #spread({ scopes, time, posted, pending }: Waiting): void {
    for (const [scope, spans] of Object.entries(JSON.parse(scopes) as Record<string, Spans>))
      for (const window of windowsOf(spans, time)) {
        const sum = this.of(scope, window)
        sum.posted += posted
        sum.pending += pending
      }
  }
}
