// The hours of one scope: what was charged and is held in each of them, and their sums for rolling budgets.
import type { Batch } from '../rows/batch.ts'
import { Cell } from './cell.ts'
import { day, hour, windowOf } from '../../window.ts'

/** Hours of a day. */
export const perDay = 24

/** For how many hours the cells of hours that need no writing are kept, because requests may still be under way. */
const kept = 48

/** How many sums are kept of each budget: around a full hour, requests of two hours are admitted. */
const keptSums = 3

/** One hour of a scope. Its sums lie in an array of its day, which stays when the cell is dropped. */
export class HourCell extends Cell {
  readonly #hours: Hours
  readonly #hour: number
  /** Whether another cell may stand for this hour by now. */
  dropped = false

  constructor(hours: Hours, number: number, sums: BigInt64Array, at: number) {
    super(hours.scope, windowOf('hour', number * hour), undefined, sums, at)
    this.#hours = hours
    this.#hour = number
  }

  override hold(amount: bigint, moved: Cell[]): void {
    super.hold(amount, moved)
    this.#hours.change(this.#hour, 0n, amount)
  }

  override post(amount: bigint, change: bigint, moved: Cell[]): void {
    super.post(amount, change, moved)
    this.#hours.change(this.#hour, amount, change)
  }
}

/**
 * The row of a rolling budget, which has its limit and no money. It tells the next start which hours are needed, so it
 * is there from the first hold on, also when the budget is removed before the balances are written.
 */
export class RollingLimit extends Cell {
  override write(batch: Batch): void {
    batch.moves.push(this.scope, this.window, 0n, 0n)
    super.write(batch)
  }
}

/** What a scope has used in a number of days that ends with a certain hour. Amounts are in nano-dollars. */
export class RollingSum {
  readonly #hours: Hours
  readonly days: number
  /** The last hour, counted from 1970. */
  readonly last: number
  readonly #sums = new BigInt64Array(2)
  /** Whether it is not kept up to date any more. */
  dropped = false

  constructor(hours: Hours, days: number, last: number) {
    this.#hours = hours
    this.days = days
    this.last = last
  }

  get posted(): bigint {
    return this.#sums[0]!
  }

  get used(): bigint {
    return this.#sums[1]!
  }

  get pending(): bigint {
    return this.used - this.posted
  }

  /** Adds what an hour has more than before, if it is one of these. */
  change(number: number, posted: bigint, used: bigint): void {
    if (number > this.last || number <= this.last - this.days * perDay) return
    this.#sums[0]! += posted
    this.#sums[1]! += used
  }

  /**
   * Sets the limit of the last hour: what the other hours leave of the budget. `anew`: otherwise a smaller limit, that
   * of another budget, stays.
   */
  limitTo(limit: bigint, anew: boolean): void {
    const cell = this.#hours.cell(this.last)
    const left = limit - (this.used - cell.used)
    if (anew || cell.limit === undefined || left < cell.limit) cell.limit = left
  }

  /** When hours that go have freed an amount, in Unix milliseconds; undefined when all of them do not. */
  freeAt(amount: bigint): number | undefined {
    const length = this.days * perDay
    let freed = 0n
    for (let number = this.last - length + 1; number <= this.last; number++) {
      freed += this.#hours.used(number)
      if (freed >= amount) return (number + length) * hour
    }
    return undefined
  }
}

/** The hours of one scope that has, or had, rolling budgets. The book has one for each such scope. */
export class Hours {
  readonly scope: string
  #reach = 0
  /** The rolling budgets that it has, or had, by their days. */
  readonly budgets = new Map<number, RollingLimit>()
  /** For each day, counted from 1970, posted and used of its hours in turn. Days without charges are left out. */
  readonly #days = new Map<number, BigInt64Array>()
  /** The cells of the latest hours, and of those with holds. */
  readonly #cells = new Map<number, HourCell>()
  readonly #sums = new Map<number, RollingSum[]>()

  constructor(scope: string) {
    this.scope = scope
  }

  /** How many days before the earliest window of the book are in memory. */
  get reach(): number {
    return this.#reach
  }

  set reach(days: number) {
    this.#reach = days
  }

  /** Keeps the hours of so many days, which are about to be loaded. */
  want?(days: number): void

  /** Tells the days of the longest budget. A scope that has its first ones has no hours that could be read. */
  begin(days: number): void {
    if (this.budgets.size === 0) this.reach = days
  }

  /** The cell of an hour, counted from 1970. */
  cell(number: number): Cell {
    const known = this.#cells.get(number)
    if (known) return known
    const cell = new HourCell(this, number, this.#dayOf(number), placeOf(number))
    for (const [other, { settled }] of this.#cells) if (other < number - kept && settled) this.#drop(other)
    this.#cells.set(number, cell)
    return cell
  }

  /** The budget of so many days. `limit`: as stored. */
  budget(days: number, limit?: bigint): RollingLimit {
    let budget = this.budgets.get(days)
    if (!budget)
      this.budgets.set(days, (budget = new RollingLimit(this.scope, `${days}d`, limit, new BigInt64Array(2), 0)))
    return budget
  }

  /** What was charged or is held in an hour. */
  used(number: number): bigint {
    return this.#days.get(Math.floor(number / perDay))?.[placeOf(number) + 1] ?? 0n
  }

  /** The sum of the days that end with an hour. It is kept up to date as long as it is not dropped. */
  sum(days: number, last: number): RollingSum {
    let sums = this.#sums.get(days)
    if (!sums) this.#sums.set(days, (sums = []))
    const known = sums.find((sum) => sum.last === last)
    if (known) return known
    const sum = this.add(days, last)
    sums.push(sum)
    if (sums.length > keptSums) sums.shift()!.dropped = true
    return sum
  }

  /** Adds up the days that end with an hour. */
  protected add(days: number, last: number): RollingSum {
    const sum = new RollingSum(this, days, last)
    const first = last - days * perDay + 1
    for (let date = Math.floor(first / perDay); date <= Math.floor(last / perDay); date++) {
      const values = this.#days.get(date)
      if (!values) continue
      for (let at = 0; at < perDay; at++) sum.change(date * perDay + at, values[2 * at]!, values[2 * at + 1]!)
    }
    return sum
  }

  /** Updates the sums after a change of an hour. */
  change(number: number, posted: bigint, used: bigint): void {
    for (const sums of this.#sums.values()) for (const sum of sums) sum.change(number, posted, used)
  }

  /** Takes over hours as stored. Days that are in memory already are passed over, as they may be newer there. */
  load(rows: readonly { hour: number; posted: bigint; pending: bigint }[]): void {
    const known = new Set(this.#days.keys())
    for (const { hour: number, posted, pending } of rows) {
      if (known.has(Math.floor(number / perDay))) continue
      const values = this.#dayOf(number)
      values[placeOf(number)] = posted
      values[placeOf(number) + 1] = posted + pending
    }
    for (const sums of this.#sums.values()) for (const sum of sums) sum.dropped = true
    this.#sums.clear()
  }

  /** Removes the days from memory that no window since `since` (Unix milliseconds) needs; returns how many it were. */
  forget(since: number): number {
    const oldest = Math.floor(since / day) - this.reach
    const live = new Set([...this.#cells.keys()].map((number) => Math.floor(number / perDay)))
    let forgotten = 0
    for (const date of this.#days.keys()) if (date < oldest && !live.has(date) && this.#days.delete(date)) forgotten++
    return forgotten
  }

  #dayOf(number: number): BigInt64Array {
    const date = Math.floor(number / perDay)
    let values = this.#days.get(date)
    if (!values) this.#days.set(date, (values = new BigInt64Array(2 * perDay)))
    return values
  }

  #drop(number: number): void {
    this.#cells.get(number)!.dropped = true
    this.#cells.delete(number)
  }
}

/** The hour that contains a time in Unix milliseconds, counted from 1970. */
export function hourOf(time: number): number {
  return Math.floor(time / hour)
}

/** Where posted of an hour lies in the array of its day; used follows it. */
function placeOf(number: number): number {
  return 2 * (number - Math.floor(number / perDay) * perDay)
}
