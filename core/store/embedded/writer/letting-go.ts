// What a journal may let go of: follows which records its database has let go of, a while behind it.
import type { Committer } from '../database/committer.ts'
import type { Keeping } from '../upkeep/upkeep.ts'
import { placeIn } from '../rows/record-place.ts'
import type { Spare } from '../segments/thinning.ts'

/**
 * Milliseconds from the deletion of a row to that of its record. Whoever has read the row, or copied the database, as a
 * backup does, finds the record as long as that.
 */
const usualLag = 3_600_000

/** What a database has let go of. */
type Gone = Pick<Spare, 'ordinal' | 'unrecorded'>

/** One database, from a start on. */
export class LettingGo {
  readonly #lag: number
  readonly #answers: number | undefined
  readonly #start: number
  readonly #began = performance.now()
  /** What it had let go of when it was looked at last, and the time before. */
  #recent: (Gone & { readonly at: number }) | undefined
  #settled: Gone | undefined

  /** `now`: Unix milliseconds of the start. */
  constructor({ answers, lag = usualLag }: Pick<Keeping, 'answers' | 'lag'>, now: number) {
    this.#lag = lag
    this.#answers = answers?.age
    this.#start = now
  }

  /** Looks at the database, when it is time. */
  look(committer: Committer): void {
    const at = performance.now()
    if (this.#recent && at - this.#recent.at < this.#lag) return
    const row = committer.database.prepare('SELECT json FROM request ORDER BY seq LIMIT 1').get()
    // A row of a store that was taken over has its record itself.
    const ordinal = placeIn(String(row?.['json'] ?? '{'))?.ordinal ?? 0
    this.#settled = this.#recent
    this.#recent = { ordinal, unrecorded: committer.head.unrecorded, at }
  }

  /** What may go now; undefined before it has looked twice. */
  get spare(): Spare | undefined {
    if (!this.#settled) return undefined
    // A clock that jumps ahead has no effect.
    const now = Math.min(this.#start + performance.now() - this.#began, Date.now())
    return { ...this.#settled, answers: this.#answers === undefined ? 0 : now - this.#answers, now }
  }
}
