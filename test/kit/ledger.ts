// A ledger without a disk, for tests of plugins: it holds and posts amounts, and keeps every row.
import { GatewayError } from '../../core/errors.ts'
import type {
  AttemptCost,
  Balance,
  BudgetStanding,
  Ledger,
  Reservation,
  ReserveRequest,
  Settlement
} from '../../core/store/ledger.ts'
import type { Price } from '../../core/money/price.ts'
import { LookedAt } from '../../core/store/embedded/balance/looked-at.ts'
import type { Scope } from '../../core/catalogue/caller.ts'

/** Everything that happened to one hold. */
export interface Row {
  request: ReserveRequest
  /** The channels of the attempts that were sent, in order. */
  dispatched: string[]
  delivered: number
  /** Until when the hold is kept for work that goes on after its exchange. */
  lease?: number
  settled?: Settlement
  voided?: true
  costs: readonly AttemptCost[]
}

/** A ledger in which all windows are one. */
export class TestLedger implements Ledger {
  readonly rows: Row[] = []
  readonly #reservations = new Map<string, { row: Row; reservation: Reservation }>()
  /** When set, `reserve` throws this error. */
  broken: GatewayError | undefined
  /** The promise that holds and settlements wait for to be durable. */
  disk: Promise<void> = Promise.resolve()

  /** The holds that were neither settled nor voided. */
  get open(): Row[] {
    return this.rows.filter(({ settled, voided }) => !settled && !voided)
  }

  reserve(request: ReserveRequest): Reservation {
    if (this.broken) throw this.broken
    for (const scope of request.scopes) {
      const used = this.#used(scope)
      for (const { limit, per } of scope.budgets)
        if (used + request.amount > limit)
          throw new GatewayError(`quota_${scope.kind}_exceeded`, `The ${scope.kind} budget is exceeded.`, {
            reason: {
              by: 'budget',
              level: scope.kind,
              scope: scope.id,
              per: String(per),
              limit_nano: String(limit),
              asked_nano: String(request.amount),
              posted_nano: String(used),
              pending_nano: '0',
              left_nano: String(limit > used ? limit - used : 0n),
              free_at: null
            }
          })
    }
    const row: Row = { request, dispatched: [], delivered: 0, costs: [] }
    this.rows.push(row)
    const end = (): void => {
      if (row.settled || row.voided) throw new Error(`${request.requestId} has ended already`)
    }
    const { requestId, amount, price } = request
    const reservation: Reservation = {
      requestId,
      amount,
      price,
      durable: this.disk,
      detach: (until) => {
        row.lease = until
        return this.disk
      },
      dispatched: (channel) => void row.dispatched.push(channel),
      delivered: (units) => void (row.delivered = units),
      settle: (settlement) => {
        end()
        row.settled = settlement
        row.costs = settlement.costs ?? []
        return this.disk
      },
      void: (costs) => {
        end()
        row.voided = true
        row.costs = costs ?? []
        return this.disk
      }
    }
    this.#reservations.set(requestId, { row, reservation })
    return reservation
  }

  detached(requestId: string): Reservation | undefined {
    const held = this.#reservations.get(requestId)
    return held?.row.lease !== undefined && this.open.includes(held.row) ? held.reservation : undefined
  }

  watch(): void {}

  scopes(): string[] {
    return []
  }

  balances(): Balance[] {
    return []
  }

  price(version: string): Price | undefined {
    return this.rows.find(({ request }) => request.price.version === version)?.request.price
  }

  look(request: ReserveRequest): Reservation {
    return new LookedAt(request)
  }

  standings(): BudgetStanding[] {
    return []
  }

  affordable(scopes: readonly Scope[]): bigint | undefined {
    const left = scopes.flatMap((scope) => scope.budgets.map(({ limit }) => limit - this.#used(scope)))
    return left.length === 0 ? undefined : left.reduce((least, one) => (one < least ? one : least))
  }

  #used({ id }: Scope): bigint {
    let used = 0n
    for (const { request, settled, voided } of this.rows) {
      if (!voided && request.scopes.some((scope) => scope.id === id)) used += settled ? settled.amount : request.amount
    }
    return used
  }
}
