// A purse whose balances lie in the shared memory: what it holds and charges is one change, under the lock of its
// tenant.
import type { PurseContents } from '../../embedded/balance/balances.ts'
import { Purse } from '../../embedded/balance/purse.ts'
import { unavailable } from '../../embedded/writer/unavailable.ts'
import type { BudgetStanding } from '../../ledger.ts'
import type { CellPlaces, WorkerCell } from './cell.ts'
import { locksOf } from './directory.ts'
import type { Directory, Place } from './directory.ts'
import type { Seat } from './seat.ts'

/** The balances of a worker, as its purses ask for them. */
interface Cells extends CellPlaces {
  readonly directory: Directory
}

/** The balances and budgets of one caller, for one worker. */
export class WorkerPurse extends Purse {
  readonly #seat: Seat
  readonly #cells: Cells
  readonly #own: readonly WorkerCell[]
  /** Where they lay when the locks were found. */
  #places: readonly Place[]
  #locks: readonly number[]
  #toTell = false

  constructor(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    { cells, budgets, moved, watches }: PurseContents,
    seat: Seat,
    from: Cells
  ) {
    super(texts, window, cells, budgets, moved, watches)
    this.#seat = seat
    this.#cells = from
    this.#own = cells as readonly WorkerCell[]
    this.#places = this.#own.map(({ place }) => place)
    this.#locks = locksOf(this.#places)
  }

  override hold(amount: bigint): void {
    this.#change(() => {
      this.#meet()
      this.#save()
      super.hold(amount)
    })
  }

  override check(amount: bigint): void {
    this.#change(() => {
      this.#meet()
      super.check(amount)
    })
  }

  override post(held: bigint, amount: bigint): void {
    // Its hold has ended already, so it has to count, whoever has the lock.
    this.#seat.surely(() =>
      this.#change(() => {
        this.#save()
        super.post(held, amount)
      })
    )
  }

  override resume(): void {
    this.#seat.surely(() =>
      this.#change(() => {
        this.#save()
        super.resume()
      })
    )
  }

  override left(): bigint | undefined {
    return this.#change(() => super.left())
  }

  override standings(): BudgetStanding[] {
    return this.#change(() => super.standings())
  }

  /** Thresholds are told to others, which nobody does who has a lock. */
  protected override tell(): void {
    this.#toTell = true
  }

  #change<T>(work: () => T): T {
    try {
      for (;;) {
        const made = this.#seat.change(this.#locks, () => (this.#isThere() ? { of: work() } : undefined))
        if (made) return made.of
        this.#renew()
      }
    } finally {
      if (this.#toTell) {
        this.#toTell = false
        super.tell()
      }
    }
  }

  #save(): void {
    for (const cell of this.#own) cell.save(this.#seat)
  }

  /** Whether all balances are where they were when the locks were found. */
  #isThere(): boolean {
    const { directory } = this.#cells
    for (let at = 0; at < this.#own.length; at++) {
      const { place } = this.#own[at]!
      if (place !== this.#places[at] || !directory.isAt(place)) return false
    }
    return true
  }

  /** Finds balances again that were forgotten: hours of some time ago, and those of windows that are long over. */
  #renew(): void {
    for (const cell of this.#own) if (!this.#cells.directory.isAt(cell.place)) cell.renew(this.#cells)
    this.#places = this.#own.map(({ place }) => place)
    this.#locks = locksOf(this.#places)
  }

  /** @throws GatewayError `billing_unavailable` when the windows of the purse are over for long */
  #meet(): void {
    if (this.#own.some(({ away }) => away))
      throw unavailable('the clock went back to a window whose balances are not in memory any more')
  }
}
