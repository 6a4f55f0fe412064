// The hours of a scope in the shared memory, and the sums of rolling budgets over them.
import type { StoredBalance } from '../../embedded/balance/balances.ts'
import type { Cell } from '../../embedded/balance/cell.ts'
import { Hours, perDay, RollingSum } from '../../embedded/balance/hours.ts'
import { hour, windowOf } from '../../window.ts'
import { dataOf } from './arena.ts'
import { nameOf, WorkerCell } from './cell.ts'
import { unclaimed } from './directory.ts'
import type { Directory, Place } from './directory.ts'
import type { Seat } from './seat.ts'

/**
 * A row of the table of hours has first what all hours of a scope together were charged and have used since the memory
 * was made: two units, which the lock of the scope's total guards, as it counts whatever an hour counts.
 */
const allUnits = 2
/**
 * Behind them are words: the latest hour that anybody asked for; how many days back there is everything; and how often
 * something happened that the sums made before do not know, which is a change of an hour that is older than a day, an
 * hour that was made when there were later ones, and hours that were loaded.
 */
const [latest, reach, changes] = [0, 1, 2]

/** Posted and used. */
type Amounts = readonly [posted: bigint, used: bigint]
const nothing: Amounts = [0n, 0n]

/** One hour of a scope in the shared memory. */
class WorkerHour extends WorkerCell {
  readonly #hours: WorkerHours
  readonly #hour: number

  constructor(hours: WorkerHours, number: number, seat: Seat, place: Place) {
    super(hours.scope, windowOf('hour', number * hour), undefined, seat, place)
    this.#hours = hours
    this.#hour = number
  }

  override save(seat: Seat): void {
    super.save(seat)
    this.#hours.save()
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
  find(scope: string, window: string): WorkerCell | undefined
  /** Where a balance lies, which is made when there is none. */
  place(scope: string, window: string, home: string): Place
  /** Puts a balance as stored into the shared memory, unless it is there. */
  put(balance: Omit<StoredBalance, 'limit'>): Place
}

/** The hours of one scope, as one worker sees them. */
export class WorkerHours extends Hours {
  /** The outermost scope of the callers; undefined until one came. */
  home: string | undefined
  readonly #cells: HourPlaces
  readonly #seat: Seat
  readonly #at: number
  readonly #words: number
  readonly #known = new Map<number, WorkerHour>()
  /** Hours that are not there, as long as the state of the hours stays. */
  readonly #absent = new Set<number>()
  #absentOf: number | undefined

  /** `row`: of the table of hours. */
  constructor(scope: string, cells: HourPlaces, seat: Seat, row: number) {
    super(scope)
    this.#cells = cells
    this.#seat = seat
    this.#at = dataOf(seat.arena.hours, row)
    this.#words = 2 * (this.#at + allUnits)
  }

  override get reach(): number {
    return Atomics.load(this.#seat.arena.words, this.#words + reach)
  }

  override set reach(days: number) {
    this.#raise(reach, days)
  }

  override begin(days: number): void {
    Atomics.compareExchange(this.#seat.arena.words, this.#words + reach, 0, days)
  }

  /** The latest hour that any thread has asked for. */
  get latest(): number {
    return Atomics.load(this.#seat.arena.words, this.#words + latest)
  }

  /** It is another number when sums have to be made anew. */
  get state(): number {
    const { words, leftAt } = this.#seat.arena
    return Atomics.load(words, this.#words + changes) + Atomics.load(words, leftAt)
  }

  /** What all hours have, less something that stays the same. */
  all(which: 0 | 1): bigint {
    return this.#seat.arena.sums[this.#at + which]!
  }

  /** What hours have together, the first and the last one included. */
  between(first: number, last: number): Amounts {
    let [posted, used] = [0n, 0n]
    for (let number = first; number <= last; number++) {
      const cell = this.#seek(number)
      if (!cell) continue
      posted += cell.posted
      used += cell.used
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
    if (known && known.place.lock !== unclaimed && this.#cells.directory.isAt(known.place)) return known
    const made = this.#keep(number, this.#cells.place(this.scope, windowOf('hour', number * hour), this.home ?? ''))
    // The hour is there before anybody is told of it, and has nothing before this method has returned.
    if (number < this.latest) this.#changed()
    else this.#raise(latest, number)
    return made
  }

  override used(number: number): bigint {
    return this.#seek(number)?.used ?? 0n
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
    for (const { hour: number, posted, pending } of rows) {
      const { scope } = this
      this.#keep(number, this.#cells.put({ scope, window: windowOf('hour', number * hour), posted, pending }))
      this.#raise(latest, number)
    }
    this.#changed()
  }

  /** Removes from this thread's memory what no window needs. In the shared memory it stays. */
  override forget(since: number): number {
    const oldest = Math.floor(since / hour) - this.reach * perDay
    for (const [number, { settled }] of this.#known) if (number < oldest && settled) this.#known.delete(number)
    return 0
  }

  protected override add(days: number, last: number): RollingSum {
    return new WorkerSum(this, days, last)
  }

  /** An hour that is there. */
  #seek(number: number): WorkerCell | undefined {
    const known = this.#known.get(number)
    if (known) return known
    if (number > this.latest) return undefined
    const { state } = this
    if (state !== this.#absentOf) this.#absent.clear()
    this.#absentOf = state
    if (this.#absent.has(number)) return undefined
    const place = this.#cells.directory.look(nameOf(this.scope, windowOf('hour', number * hour)))
    if (place) return this.#keep(number, place)
    // Who makes it from now on says that something has changed, as there is a later one.
    if (number < this.latest) this.#absent.add(number)
    return undefined
  }

  #keep(number: number, place: Place): WorkerHour {
    const cell = new WorkerHour(this, number, this.#seat, place)
    this.#known.set(number, cell)
    return cell
  }

  #changed(): void {
    Atomics.add(this.#seat.arena.words, this.#words + changes, 1)
  }

  #raise(word: number, value: number): void {
    const { words } = this.#seat.arena
    const at = this.#words + word
    for (let before = Atomics.load(words, at); before < value; before = Atomics.load(words, at))
      if (Atomics.compareExchange(words, at, before, value) === before) return
  }
}
