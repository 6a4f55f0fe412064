// The days that the journal takes entries of. Each is a partition, which is made before the first entry of its day.
import type { Lane } from '../../database/lane.ts'
import { day } from '../../../window.ts'

/** The days that are known to be there. */
export class Days {
  readonly #lane: Lane
  readonly #made = new Set<number>()

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** What is known may be wrong: days are asked for again. */
  forget(): void {
    this.#made.clear()
  }

  /** Makes the day of a time, if it is not there. */
  async make(time: number): Promise<void> {
    const number = Math.floor(time / day)
    if (this.#made.has(number)) return
    await this.#lane.query('select sluice.journal_day_1($1::date)', [new Date(number * day).toISOString().slice(0, 10)])
    this.#made.add(number)
  }
}
