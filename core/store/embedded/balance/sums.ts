// Sums of money by scope and window, into which rows of the journal and holds are spread.
import { hour, windowsOf } from '../../window.ts'
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

/** How many texts of scopes are remembered, with the sums that they lead to at a time. */
const mostKnown = 4096

/** Sums that are made as they are asked for. */
export class Sums implements Iterable<Sum> {
  readonly #scopes = new Map<string, Map<string, Sum>>()
  /** Where rows were spread that had the same scopes, by their text, and in which hour that was. */
  readonly #known = new Map<string, { hour: number; sums: readonly Sum[] }>()

  /** The sum of a scope in a window. */
  of(scope: string, window: string): Sum {
    let windows = this.#scopes.get(scope)
    if (!windows) this.#scopes.set(scope, (windows = new Map()))
    let sum = windows.get(window)
    if (!sum) windows.set(window, (sum = { scope, window, posted: 0n, pending: 0n, limit: undefined }))
    return sum
  }

  /** The sums in which a row counts. `scopes` as stored, `time` in Unix milliseconds: no window ends within an hour. */
  spread(scopes: string, time: number): readonly Sum[] {
    const of = Math.floor(time / hour)
    const known = this.#known.get(scopes)
    if (known?.hour === of) return known.sums
    const sums = Object.entries(JSON.parse(scopes) as Record<string, Spans>).flatMap(([scope, spans]) =>
      windowsOf(spans, time).map((window) => this.of(scope, window))
    )
    if (this.#known.size >= mostKnown) this.#known.clear()
    this.#known.set(scopes, { hour: of, sums })
    return sums
  }

  /** Adds an amount to each of some sums. */
  static add(sums: readonly Sum[], posted: bigint, pending: bigint): void {
    for (const sum of sums) {
      if (posted !== 0n) sum.posted += posted
      if (pending !== 0n) sum.pending += pending
    }
  }

  /** The sums as changes of balances. */
  moves(): Batch['moves'] {
    return [...this].flatMap(({ scope, window, posted, pending }) => [scope, window, posted, pending])
  }

  *[Symbol.iterator](): Generator<Sum> {
    for (const windows of this.#scopes.values()) yield* windows.values()
  }
}
