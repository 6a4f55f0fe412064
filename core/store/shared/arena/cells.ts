// Balances in the shared memory, as one worker sees them.
import { Balances } from '../../embedded/balance/balances.ts'
import type { PurseContents, StoredBalance } from '../../embedded/balance/balances.ts'
import type { Purse } from '../../embedded/balance/purse.ts'
import { day, daysOf, hour, isHour, oldestWindow, overAt } from '../../window.ts'
import { dataOf, lockOf } from './arena.ts'
import { awayOf, nameOf, sumUnits, WorkerCell } from './cell.ts'
import { Directory, unclaimed } from './directory.ts'
import type { Place } from './directory.ts'
import { WorkerHours } from './hours.ts'
import { WorkerPurse } from './purse.ts'
import { withRoom } from './room.ts'
import type { Seat } from './seat.ts'

/**
 * The balances that threads share, as one of them sees them. What {@link Balances.load} takes over is put into the
 * shared memory, unless it is there: the supervisor does that before any worker can ask for it.
 */
export class WorkerCells extends Balances {
  readonly directory: Directory
  readonly days: Directory
  /** Called before balances are listed: has {@link WorkerCells.learn} called with what this thread has not made. */
  onListed: () => void = () => {}
  readonly #seat: Seat
  readonly #hours: Directory
  /** The scopes that others have balances of, with the limits of their windows. */
  readonly #others = new Map<string, Map<string, bigint | undefined>>()
  /** The limits of rolling budgets of others, by their days, that are not among the hours yet. */
  readonly #rolling = new Map<string, Map<number, bigint | undefined>>()

  constructor(seat: Seat) {
    super(0)
    this.#seat = seat
    const { cells, hours, days } = seat.arena
    this.directory = new Directory(cells, seat)
    this.#hours = new Directory(hours, seat)
    this.days = new Directory(days, seat)
  }

  override get since(): number {
    return this.sinceHour * hour
  }

  /** The hour since which all balances are in the shared memory. */
  get sinceHour(): number {
    const { words, sinceAt } = this.#seat.arena
    return Atomics.load(words, sinceAt)
  }

  override horizon(time: number): number {
    return horizonOf(time)
  }

  override forget(since: number): void {
    const { words, sinceAt, keptAt } = this.#seat.arena
    this.#alone(() => {
      if (since <= this.since) return
      // In this order, as the thread may end in between: what is kept longer than it has to be hurts nobody.
      words[sinceAt] = since / hour
      words[keptAt] = since / hour
    })
  }

  override reach(since: number): void {
    const { words, keptAt } = this.#seat.arena
    this.#alone(() => void (words[keptAt] = Math.min(words[keptAt]!, since / hour)))
  }

  override reached(since: number): void {
    const { words, sinceAt, keptAt } = this.#seat.arena
    // Where somebody has said meanwhile that less is needed, some of it may be forgotten again.
    this.#alone(() => {
      if (words[keptAt]! <= since / hour) words[sinceAt] = Math.min(words[sinceAt]!, since / hour)
    })
  }

  /** Whoever looks at these words while something is forgotten, or made, has the lock of the table. */
  #alone(work: () => void): void {
    this.#seat.change([this.directory.lock], work)
  }

  /** @throws GatewayError `billing_unavailable` when there is no room for another balance */
  override cell(scope: string, window: string, home: string): WorkerCell {
    const cell = super.cell(scope, window, home) as WorkerCell
    cell.home ||= home
    // Asked without the lock, which whoever changes the balance has when it asks again.
    if (cell.away || cell.place.lock === unclaimed || !this.directory.isAt(cell.place)) cell.renew(this)
    return cell
  }

  override hours(scope: string, home: string): WorkerHours {
    const hours = super.hours(scope, home) as WorkerHours
    hours.home ??= home
    return hours
  }

  /** The balance of a scope in a window, whichever thread has made it. */
  override find(scope: string, window: string): WorkerCell | undefined {
    const known = this.known(scope, window)
    if (known && this.directory.isAt(known.place)) return known
    const place = this.directory.look(nameOf(scope, window))
    if (!place) return undefined
    const cell = new WorkerCell(scope, window, this.#others.get(scope)?.get(window), this.#seat, place)
    this.keep(cell)
    this.tidy(scope)
    return cell
  }

  override get scopes(): readonly string[] {
    return [...new Set([...super.scopes, ...this.#others.keys()])]
  }

  override refresh(): void {
    this.onListed()
    for (const [scope, budgets] of this.#rolling) {
      for (const [days, limit] of budgets) this.storedHours(scope).budget(days).limit = limit
      this.#rolling.delete(scope)
    }
  }

  /**
   * Hears of a balance of another thread. It takes no lock. `limit`: null for none; undefined where it stayed.
   */
  learn(scope: string, window: string, limit: bigint | null | undefined): void {
    const limits = entryOf(this.#others, scope)
    if (limit === undefined) return
    const days = daysOf(window)
    if (days !== undefined) return void entryOf(this.#rolling, scope).set(days, limit ?? undefined)
    if (isHour(window)) return
    const cell = this.known(scope, window)
    if (cell) cell.limit = limit ?? undefined
    limits.set(window, limit ?? undefined)
    const oldest = oldestWindow(this.since)
    for (const name of limits.keys()) if (name < oldest) limits.delete(name)
  }

  place(scope: string, window: string, home: string): Place {
    const [name, over, lock] = [nameOf(scope, window), overHour(window), lockOf(home)]
    return withRoom(() =>
      this.#seat.change([this.directory.lock], () =>
        this.isOver(window) ? (this.directory.look(name, lock) ?? awayOf(lock)) : this.directory.find(name, lock, over)
      )
    )
  }

  /** Puts a balance as stored into the shared memory, unless it is there. */
  #put({ scope, window, posted, pending }: StoredBalance): Place {
    const { arena } = this.#seat
    const fill = (row: number): void => {
      const at = dataOf(arena.cells, row)
      this.#seat.save(at, sumUnits)
      arena.sums[at] = posted
      arena.sums[at + 1] = posted + pending
    }
    return withRoom(() => this.directory.prepare(nameOf(scope, window), fill, overHour(window)))
  }

  override purse(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    contents: PurseContents
  ): Purse {
    return new WorkerPurse(texts, window, contents, this.#seat, this)
  }

  protected override known(scope: string, window: string): WorkerCell | undefined {
    return super.known(scope, window) as WorkerCell | undefined
  }

  protected override make(scope: string, window: string, home: string): WorkerCell {
    return new WorkerCell(scope, window, undefined, this.#seat, this.place(scope, window, home))
  }

  protected override take(balance: StoredBalance): void {
    const { scope, window, limit } = balance
    const { words, keptAt } = this.#seat.arena
    const over = overHour(window)
    if (over > 0 && over <= words[keptAt]!) return
    const known = this.known(scope, window)
    if (known && !known.away && this.directory.isAt(known.place)) return
    const place = this.#put(balance)
    if (known) known.place = place
    else this.keep(new WorkerCell(scope, window, limit ?? undefined, this.#seat, place))
  }

  protected override makeHours(scope: string, home: string | undefined): WorkerHours {
    const { row } = withRoom(() =>
      home === undefined ? this.#hours.prepare(scope, () => {}) : this.#hours.find(scope, lockOf(home))
    )
    return new WorkerHours(scope, this, this.#seat, row)
  }

  protected override isOver(window: string): boolean {
    const over = overHour(window)
    return over > 0 && over <= this.sinceHour
  }
}

/**
 * How far back balances are kept in the shared memory for the requests of a time: the day before, as a clock may go
 * back by some hours. Both in Unix milliseconds.
 */
export function horizonOf(time: number): number {
  return (Math.floor(time / day) - 1) * day
}

/** The hour with which a window is over, counted from 1970; 0 for never. */
function overHour(window: string): number {
  const over = overAt(window)
  return over === undefined ? 0 : over / hour
}

function entryOf<K>(all: Map<string, Map<K, bigint | undefined>>, scope: string): Map<K, bigint | undefined> {
  let entry = all.get(scope)
  if (!entry) all.set(scope, (entry = new Map()))
  return entry
}
