// The clock of the database, as this process sees it: leases of nodes and holds end by it.
import type { Lane } from './lane.ts'

/** How far both clocks may differ before it is told, in milliseconds. */
const told = 1000

/** The clock of the database. */
export class DatabaseClock {
  readonly #lane: Lane
  readonly #fixed: (() => number) | undefined
  #skew = 0

  /** `fixed`: the time instead of both clocks, for tests. */
  constructor(lane: Lane, fixed: (() => number) | undefined) {
    this.#lane = lane
    this.#fixed = fixed
  }

  /** How far this process's clock is ahead of the database's, in milliseconds; 0 where it may be right. */
  get skew(): number {
    return this.#skew
  }

  /** Unix milliseconds by the clock of the database, as of the last comparison. */
  now(): number {
    return this.#fixed?.() ?? Date.now() - this.#skew
  }

  /** Compares both. Returns what is to be told. */
  async compare(): Promise<{ readonly seconds: number } | undefined> {
    if (this.#fixed) return undefined
    const before = Date.now()
    const { rows } = await this.#lane.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now'
    )
    const after = Date.now()
    const theirs = rows[0]!.now
    this.#skew = theirs < before ? before - theirs : theirs > after ? after - theirs : 0
    return Math.abs(this.#skew) > told ? { seconds: Math.round(this.#skew / 1000) } : undefined
  }
}
