// Balances in the shared memory, as one worker sees them.
import { Balances } from '../../embedded/balance/balances.ts'
import type { PurseContents, StoredBalance } from '../../embedded/balance/balances.ts'
import type { Purse } from '../../embedded/balance/purse.ts'
import { unavailable } from '../../embedded/writer/unavailable.ts'
import { daysOf, isHour, oldestWindow } from '../../window.ts'
import { dataOf, lockOf } from './arena.ts'
import { nameOf, sumUnits, WorkerCell } from './cell.ts'
import { Directory, TableFull, unclaimed } from './directory.ts'
import type { Place } from './directory.ts'
import { WorkerHours } from './hours.ts'
import { WorkerPurse } from './purse.ts'
import type { Seat } from './seat.ts'

/**
 * The balances that threads share, as one of them sees them. What {@link Balances.load} takes over is put into the
 * shared memory, unless it is there: the supervisor does that before any worker can ask for it.
 */
export class WorkerCells extends Balances {
  readonly directory: Directory
  /** Called before balances are listed: has {@link WorkerCells.learn} called with what this thread has not made. */
  onListed: () => void = () => {}
  readonly #seat: Seat
  readonly #hours: Directory
  /** The scopes that others have balances of, with the limits of their windows. */
  readonly #others = new Map<string, Map<string, bigint | undefined>>()
  /** The limits of rolling budgets of others, by their days, that are not among the hours yet. */
  readonly #rolling = new Map<string, Map<number, bigint | undefined>>()

  /** `since`: from when on, in Unix milliseconds, all balances are in the shared memory. */
  constructor(seat: Seat, since: number) {
    super(since)
    this.#seat = seat
    this.directory = new Directory(seat.arena.cells, seat)
    this.#hours = new Directory(seat.arena.hours, seat)
  }

  /** @throws GatewayError `billing_unavailable` when there is no room for another balance */
  override cell(scope: string, window: string, home: string): WorkerCell {
    const known = this.known(scope, window)
    // Asked without the lock: a balance is forgotten only when its window is long over.
    if (known && !this.directory.isAt(known.place)) this.keep(this.make(scope, window, home))
    const cell = super.cell(scope, window, home) as WorkerCell
    if (cell.place.lock === unclaimed) cell.place = this.place(scope, window, home)
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
    if (known) return known
    const place = this.directory.look(nameOf(scope, window))
    if (!place) return undefined
    const cell = new WorkerCell(scope, window, this.#others.get(scope)?.get(window), this.#seat, place)
    this.keep(cell)
    if (!isHour(window)) this.tidy(scope)
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

  /**
   * Where a balance lies, which is made when there is none.
   * @throws GatewayError `billing_unavailable` when there is no room for it
   */
  place(scope: string, window: string, home: string): Place {
    return withRoom(() => this.directory.find(nameOf(scope, window), lockOf(home)))
  }

  /** Puts a balance as stored into the shared memory, unless it is there. */
  put({ scope, window, posted, pending }: Omit<StoredBalance, 'limit'>): Place {
    const { arena } = this.#seat
    return withRoom(() =>
      this.directory.prepare(nameOf(scope, window), (row) => {
        const at = dataOf(arena.cells, row)
        this.#seat.save(at, sumUnits)
        arena.sums[at] = posted
        arena.sums[at + 1] = posted + pending
      })
    )
  }

  override purse(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    contents: PurseContents
  ): Purse {
    return new WorkerPurse(texts, window, contents, this.#seat, this.directory)
  }

  protected override known(scope: string, window: string): WorkerCell | undefined {
    return super.known(scope, window) as WorkerCell | undefined
  }

  protected override make(scope: string, window: string, home: string): WorkerCell {
    return new WorkerCell(scope, window, undefined, this.#seat, this.place(scope, window, home))
  }

  protected override stored(balance: StoredBalance): WorkerCell {
    const { scope, window, limit } = balance
    return new WorkerCell(scope, window, limit ?? undefined, this.#seat, this.put(balance))
  }

  protected override makeHours(scope: string, home: string | undefined): WorkerHours {
    const { row } = withRoom(() =>
      home === undefined ? this.#hours.prepare(scope, () => {}) : this.#hours.find(scope, lockOf(home))
    )
    return new WorkerHours(scope, this, this.#seat, row)
  }
}

function withRoom(work: () => Place): Place {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof TableFull)) throw error
    throw unavailable(`too many balances are in use: ${error.message}`)
  }
}

function entryOf<K>(all: Map<string, Map<K, bigint | undefined>>, scope: string): Map<K, bigint | undefined> {
  let entry = all.get(scope)
  if (!entry) all.set(scope, (entry = new Map()))
  return entry
}
