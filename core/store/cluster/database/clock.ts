// The clock of the database, as this process sees it. Everything that gateways share goes by it, and not by their own.
import { setSteady, steadyNow } from '../../../watchdog/steady-time.ts'
import type { Lane } from './lane.ts'

/** How far a clock may differ before that matters, in milliseconds. */
const noticed = 1000
/** How far both clocks may differ before neither is believed: nothing is decided on, and nothing is deleted. */
const mostSkew = 60_000

/** What time it is, in Unix milliseconds, as a part of a statement. */
export const databaseTime = '(extract(epoch from clock_timestamp()) * 1000)::float8'

/** What time it was by the database between `began`, of `performance.now()`, and its answer. */
export interface Reading {
  readonly time: number
  readonly began: number
}

/** The clock of the database. */
export class DatabaseClock {
  readonly #lane: Lane
  #skew = 0
  #compared = false

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** How far this process's clock is ahead of the database's, in milliseconds; 0 where it may be right. */
  get skew(): number {
    return this.#skew
  }

  /** Whether both clocks say nearly the same, as of the last comparison. Else nobody knows which one is right. */
  get agrees(): boolean {
    return Math.abs(this.#skew) <= mostSkew
  }

  /** Whether they differ by so much that it is to be told. */
  get differs(): boolean {
    return Math.abs(this.#skew) > noticed
  }

  /** Unix milliseconds by the clock of the database, as of the last comparison. */
  now(): number {
    return Date.now() - this.#skew
  }

  /**
   * Compares both, and sets {@link steadyNow} by the database: at first, and later when both say that it is wrong, so
   * that no clock which is set for a moment ends what should last.
   */
  async compare(): Promise<Reading> {
    const began = performance.now()
    const before = Date.now()
    const { rows } = await this.#lane.query<{ now: number }>(`select ${databaseTime} as now`)
    const after = Date.now()
    const time = rows[0]!.now
    this.#skew = time < before ? before - time : time > after ? after - time : 0
    const late = performance.now() - began
    const isWrong = Math.abs(steadyNow() - time) > noticed + late
    if (isWrong && (!this.#compared || this.agrees)) setSteady(time)
    this.#compared = true
    return { time, began }
  }
}
