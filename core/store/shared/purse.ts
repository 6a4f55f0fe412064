// A purse whose balances lie in the shared memory: what it holds and charges is one change, under the lock of its
// tenant.
import { Purse } from '../embedded/balance/purse.ts'
import type { Limited } from '../embedded/balance/purse.ts'
import type { Cell } from '../embedded/balance/cell.ts'
import { GatewayError } from '../../errors.ts'
import type { BudgetStanding } from '../ledger.ts'
import type { WorkerCell, WorkerCells } from './cells.ts'
import { locksOf } from './directory.ts'
import type { Seat } from './seat.ts'

/** The balances and budgets of one caller, for one worker. */
export class WorkerPurse extends Purse {
  readonly #seat: Seat
  readonly #shared: WorkerCells
  readonly #own: readonly WorkerCell[]
  readonly #locks: readonly number[]
  #toTell = false

  constructor(
    texts: Pick<Purse, 'scopes' | 'tags'>,
    window: Pick<Purse, 'from' | 'until'>,
    cells: readonly WorkerCell[],
    budgets: readonly Limited[],
    moved: Cell[],
    seat: Seat,
    shared: WorkerCells
  ) {
    super(texts, window, cells, budgets, moved)
    this.#seat = seat
    this.#shared = shared
    this.#own = cells
    this.#locks = locksOf(cells.map(({ place }) => place))
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

  override fits(amount: bigint, held: bigint): boolean {
    return this.#change(() => super.fits(amount, held))
  }

  override post(held: bigint, amount: bigint): void {
    this.#change(() => {
      this.#save()
      super.post(held, amount)
    })
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
        for (const { place } of this.#own) if (!this.#shared.directory.isAt(place)) throw gone()
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
  return new GatewayError('billing_unavailable', 'Requests cannot be accounted for at the moment. Try again.', {
    retryAfterMs: 1000,
    cause: 'the clock went back to a window whose balances are not in memory any more'
  })
}
