// Takes the place of a hold for a request that is only explained.
import type { Nano } from '../../../money/money.ts'
import type { Price } from '../../../money/price.ts'
import type { Reservation, ReserveRequest } from '../../ledger.ts'

const done = Promise.resolve()

/** A reservation of nothing: all that is done with it has no effect. */
export class LookedAt implements Reservation {
  readonly requestId: string
  readonly amount: Nano
  readonly price: Price
  readonly durable = done

  constructor({ requestId, amount, price }: ReserveRequest) {
    this.requestId = requestId
    this.amount = amount
    this.price = price
  }

  dispatched(): void {}

  delivered(): void {}

  detach(): Promise<void> {
    return done
  }

  settle(): Promise<void> {
    return done
  }

  void(): Promise<void> {
    return done
  }
}
