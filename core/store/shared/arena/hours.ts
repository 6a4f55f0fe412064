// The hours of a scope in the shared memory, and the sums of rolling budgets over them.
import type { Cell } from '../../embedded/balance/cell.ts'
import { Hours, perDay, RollingSum } from '../../embedded/balance/hours.ts'
import { hour, windowOf } from '../../window.ts'
import { dataOf, lockOf } from './arena.ts'
import { awayOf, dayOf, nameOf, putElsewhere, sumUnits, WorkerCell } from './cell.ts'
import { allUnits, beginDay, changes, dayName, hoursWord, latest, need, reach, wanted } from './days.ts'
import { unclaimed } from './directory.ts'
import type { Directory, Place } from './directory.ts'
import { withRoom } from './room.ts'
import type { Seat } from './seat.ts'

/** For how many hours those are remembered that need no writing, because requests may still be under way. */
const remembered = 48
/** How many days more than a budget has are remembered: those before are forgotten at once. */
const mostStale = 64

/** Posted and used. */
type Amounts = readonly [posted: bigint, used: bigint]
const nothing: Amounts = [0n, 0n]

/**
 * One hour of a scope in the shared memory. What all seats have of it is in its day, which stays; what each seat has of
 * it is in a row of cells, which is forgotten some hours later.
 */
class WorkerHour extends WorkerCell {
  readonly #hours: WorkerHours
  readonly #hour: number

  constructor(hours: WorkerHours, number: number, seat: Seat, place: Place) {
    super(hours.scope, windowOf('hour', number * hour), undefined, seat, place)
    this.#hours = hours
    this.#hour = number
  }

  override renew(): void {
    this.place = this.#hours.place(this.#hour)
  }

  override save(seat: Seat): void {
    super.save(seat)
    if (!this.away) this.#hours.save()
  }

  override hold(amount: bigint, moved: Cell[]): void {
    super.hold(amount, moved)
    if (!this.away) this.#hours.change(this.#hour, 0n, amount)
  }

  override post(amount: bigint, change: bigint, moved: Cell[]): void {
    super.post(amount, change, moved)
    if (!this.away) this.#hours.change(this.#hour, amount, change)
  }
}

/**
 * The sum of hours that other threads change too: what all hours have, less what they had before the first one, and
 * less what those behind the last one have. What was before is computed once, as hardly anything changes it.
 */
class WorkerSum extends RollingSum {
  readonly #hours: WorkerHours
  /** What all hours have without these and those behind them, and the state of the hours that it is of. */
  #before: Amounts = [0n, 0n]
  #of: number | undefined

  constructor(hours: WorkerHours, days: number, last: number) {
    super(hours, days, last)
    this.#hours = hours
  }

  override get posted(): bigint {
    return this.#sum(0)
  }

  override get used(): bigint {
    return this.#sum(1)
  }

  #sum(which: 0 | 1): bigint {
    const hours = this.#hours
    // Of times that are long past nobody says what changes, and there are many hours behind them.
    if (hours.latest - this.last >= perDay) return this.#own()[which]
    if (hours.state !== this.#of) hours.locked(() => this.#begin())
    return hours.all(which) - this.#before[which] - hours.behind(this.last)[which]
  }

  #begin(): void {
    const hours = this.#hours
    this.#of = hours.state
    const [own, behind] = [this.#own(), hours.behind(this.last)]
    this.#before = [hours.all(0) - own[0] - behind[0], hours.all(1) - own[1] - behind[1]]
  }

  #own(): Amounts {
    return this.#hours.between(this.last - this.days * perDay + 1, this.last)
  }
}

/** What hours ask of the balances of their worker. */
export interface HourPlaces {
  readonly directory: Directory
  readonly days: Directory
  /** The hour since which all balances are in the shared memory. */
  readonly sinceHour: number
  find(scope: string, window: string): WorkerCell | undefined
}

/** The hours of one scope, as one worker sees them. */
export class WorkerHours extends Hours {
  /** The outermost scope of the callers; undefined until one came. */
  home: string | undefined
  readonly #cells: HourPlaces
  readonly #seat: Seat
  readonly #row: number
  readonly #at: number
  readonly #known = new Map<number, WorkerHour>()
  readonly #days = new Map<number, Place>()
  /** Days that are not there, as long as the state of the hours stays. */
  readonly #absent = new Set<number>()
  #absentOf: number | undefined

  /** `row`: of the table of hours. */
  constructor(scope: string, cells: HourPlaces, seat: Seat, row: number) {
    super(scope)
    this.#cells = cells
    this.#seat = seat
    this.#row = row
    this.#at = dataOf(seat.arena.hours, row)
  }

  override get reach(): number {
    return this.#load(reach)
  }

  override set reach(days: number) {
    this.#raise(reach, days)
  }

  override want(days: number): void {
    this.#raise(wanted, days)
  }

  override begin(days: number): void {
    Atomics.compareExchange(this.#seat.arena.words, this.#word(reach), 0, days)
  }

  /** The latest hour that any thread has asked for. */
  get latest(): number {
    return this.#load(latest)
  }

  /** It is another number when sums have to be made anew. */
  get state(): number {
    const { words, leftAt } = this.#seat.arena
    return this.#load(changes) + Atomics.load(words, leftAt)
  }

  /** What all hours have, less something that stays the same. */
  all(which: 0 | 1): bigint {
    return this.#seat.arena.sums[this.#at + which]!
  }

  /** What hours have together, the first and the last one included. */
  between(first: number, last: number): Amounts {
    const { sums, days } = this.#seat.arena
    let [posted, used] = [0n, 0n]
    for (let date = dateOf(first); date <= dateOf(last); date++) {
      const row = this.#dayThere(date)
      if (row === undefined) continue
      const begins = date * perDay
      const data = dataOf(days, row) - sumUnits * begins
      for (let number = Math.max(first, begins); number <= Math.min(last, begins + perDay - 1); number++) {
        posted += sums[data + sumUnits * number]!
        used += sums[data + sumUnits * number + 1]!
      }
    }
    return [posted, used]
  }

  /** What the hours behind one have together. */
  behind(number: number): Amounts {
    const last = this.latest
    return number >= last ? nothing : this.between(number + 1, last)
  }

  /** Does something that reads several hours. What a purse does is under the lock already. */
  locked(work: () => void): void {
    const lock = this.#cells.find(this.scope, 'total')?.place.lock ?? unclaimed
    this.#seat.change(lock === unclaimed ? [] : [lock], work)
  }

  override cell(number: number): WorkerCell {
    const known = this.#known.get(number)
    if (known && !known.away && this.#cells.directory.isAt(known.place)) return known
    const place = this.place(number)
    // The day is there before anybody is told of it, and has nothing in this hour before this method has returned.
    this.#raise(latest, number)
    if (known) {
      known.place = place
      return known
    }
    for (const [other, { settled }] of this.#known)
      if (other < number - remembered && settled) this.#known.delete(other)
    const cell = new WorkerHour(this, number, this.#seat, place)
    this.#known.set(number, cell)
    return cell
  }

  override used(number: number): bigint {
    return this.between(number, number)[1]
  }

  /**
   * Where what each seat has of an hour lies, which is made when there is none; away when the hour is over for long.
   * @throws GatewayError `billing_unavailable` when there is no room for it
   */
  place(number: number): Place {
    const { directory, days } = this.#cells
    const home = lockOf(this.home ?? '')
    // Both tables in one change: a day stays for as long as there is a row that has its sums there.
    return withRoom(() =>
      this.#seat.change([directory.lock, days.lock], () => {
        const date = dateOf(number)
        const [name, over] = [dayName(this.scope, date), (date + 1) * perDay]
        const fill = (row: number): void => {
          beginDay(this.#seat, row, this.#row)
          // Whoever hears of it before the day is there waits for the table.
          if (date <= dateOf(this.latest)) this.#changed()
        }
        const isNeeded = over > this.#cells.sinceHour - this.#back * perDay
        const there = isNeeded ? days.prepare(name, fill, over) : days.look(name)
        if (!there) return awayOf(home)
        const found = directory.find(nameOf(this.scope, windowOf('hour', number * hour)), home, number + 1)
        if (dayOf(this.#seat.arena, found.row) === 0) {
          putElsewhere(this.#seat, found.row, there.row, number - date * perDay)
          need(this.#seat, there.row, 1)
        }
        return found
      })
    )
  }

  /** Notes what {@link WorkerHours.change} changes. */
  save(): void {
    this.#seat.save(this.#at, allUnits)
  }

  override change(number: number, posted: bigint, used: bigint): void {
    const { sums } = this.#seat.arena
    sums[this.#at]! += posted
    sums[this.#at + 1]! += used
    if (number <= this.latest - perDay) this.#changed()
  }

  override load(rows: readonly { hour: number; posted: bigint; pending: bigint }[]): void {
    const { sums, days } = this.#seat.arena
    for (const [date, hours] of Map.groupBy(rows, ({ hour: number }) => dateOf(number))) {
      const fill = (row: number): void => {
        beginDay(this.#seat, row, this.#row)
        for (const { hour: number, posted, pending } of hours) {
          const at = dataOf(days, row) + sumUnits * (number - date * perDay)
          this.#seat.save(at, sumUnits)
          sums[at] = posted
          sums[at + 1] = posted + pending
        }
      }
      withRoom(() => this.#cells.days.prepare(dayName(this.scope, date), fill, (date + 1) * perDay))
      this.#raise(latest, Math.max(...hours.map(({ hour: number }) => number)))
    }
    this.#changed()
  }

  /** Days are forgotten by the supervisor. */
  override forget(): number {
    return 0
  }

  protected override add(days: number, last: number): RollingSum {
    return new WorkerSum(this, days, last)
  }

  /** The row of a day that is there. */
  #dayThere(date: number): number | undefined {
    const { days } = this.#cells
    const known = this.#days.get(date)
    if (known && days.isAt(known)) return known.row
    if (date > dateOf(this.latest)) return undefined
    const { state } = this
    if (state !== this.#absentOf) this.#absent.clear()
    this.#absentOf = state
    if (this.#absent.has(date)) return undefined
    const place = days.look(dayName(this.scope, date))
    if (this.#days.size > this.#back + mostStale) this.#days.clear()
    // Who makes it from now on says that something has changed, as there is a later one.
    if (!place) this.#absent.add(date)
    else this.#days.set(date, place)
    return place?.row
  }

  /** How many days before the first window nothing is forgotten. */
  get #back(): number {
    return Math.max(this.reach, this.#load(wanted))
  }

  #changed(): void {
    Atomics.add(this.#seat.arena.words, this.#word(changes), 1)
  }

  #raise(word: number, value: number): void {
    const { words } = this.#seat.arena
    const at = this.#word(word)
    for (let before = Atomics.load(words, at); before < value; before = Atomics.load(words, at))
      if (Atomics.compareExchange(words, at, before, value) === before) return
  }

  #load(word: number): number {
    return Atomics.load(this.#seat.arena.words, this.#word(word))
  }

  #word(word: number): number {
    return hoursWord(this.#seat.arena, this.#row, word)
  }
}

/** The day of an hour, both counted from 1970. */
function dateOf(number: number): number {
  return Math.floor(number / perDay)
}
