// A purse whose balances lie in the shared memory: what it holds and charges is one change, under the lock of its
// tenant.
import type { GatewayError } from '../../../errors.ts'
import type { PurseContents } from '../../embedded/balance/balances.ts'
import { Purse } from '../../embedded/balance/purse.ts'
import { unavailable } from '../../embedded/writer/unavailable.ts'
import type { BudgetStanding } from '../../ledger.ts'
import type { WorkerCell } from './cell.ts'
import { locksOf } from './directory.ts'
import type { Directory } from './directory.ts'
import type { Seat } from './seat.ts'

/** The balances and budgets of one caller, for one worker. */
export class WorkerPurse extends Purse {
  readonly #seat: Seat
  readonly #directory: Directory
  readonly #own: readonly WorkerCell[]
  readonly #locks: readonly number[]
  #toTell = false

  constructor(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    { cells, budgets, moved, watches }: PurseContents,
    seat: Seat,
    directory: Directory
  ) {
    super(texts, window, cells, budgets, moved, watches)
    this.#seat = seat
    this.#directory = directory
    this.#own = cells as readonly WorkerCell[]
    this.#locks = locksOf(this.#own.map(({ place }) => place))
  }

  override hold(amount: bigint): void {
    this.#change(() => {
      this.#save()
      super.hold(amount)
    })
  }

  override check(amount: bigint): void {
    this.#change(() => super.check(amount))
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
      return this.#seat.change(this.#locks, () => {
        for (const { place } of this.#own) if (!this.#directory.isAt(place)) throw gone()
        return work()
      })
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
}

/** The windows of the purse ended months ago, and their balances have been forgotten since it was made. */
function gone(): GatewayError {
  return unavailable('the clock went back to a window whose balances are not in memory any more')
}
