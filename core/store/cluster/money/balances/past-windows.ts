// Removes what no budget looks at any more: balances of hours, and thresholds that were told of windows long past.
import { hoursKept } from '../../../embedded/upkeep/past-hours.ts'
import { horizon, oldestWindow, windowOf } from '../../../window.ts'
import type { Lane } from '../../database/lane.ts'

/** How many rows one slice removes. */
const most = 500
/** Milliseconds until all scopes are looked at again. */
const interval = 3_600_000

/** The removal of what is past, by one of the nodes of a book. What one is removing others leave alone. */
export class PastWindows {
  readonly #lane: Lane
  readonly #now: () => number
  /** The scope that was looked at last. */
  #scope = ''
  /** When the next round begins, by performance.now(). */
  #due = -Infinity

  /** `now`: Unix milliseconds. */
  constructor(lane: Lane, now: () => number) {
    this.#lane = lane
    this.#now = now
  }

  /** Removes some: of hours what the store of one machine removes, too. Returns whether there may be more. */
  async sweep(): Promise<boolean> {
    if (performance.now() < this.#due) return false
    const { rows } = await this.#lane.query<{ last: string; removed: number }>(
      'select * from sluice.money_sweep_1($1, $2, $3)',
      [this.#scope, hoursKept, most]
    )
    const [row] = rows
    if (row) {
      // Of the last scope there may be more.
      if (row.removed < most) this.#scope = row.last
      return true
    }
    const since = horizon(this.#now())
    const { count } = await this.#lane.query(
      `delete from sluice.told where ctid = any (array(select ctid from sluice.told where "window" <> 'total'
        and regexp_replace("window", '^[0-9]+d ', '') collate "C" < case
          when "window" ~ ' ' then $1 else $2 end collate "C" limit $3))`,
      [windowOf('day', since), oldestWindow(since), most]
    )
    if (count > 0) return true
    this.#scope = ''
    this.#due = performance.now() + interval
    return false
  }
}
