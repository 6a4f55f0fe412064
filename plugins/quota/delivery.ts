// Tells the ledger how much of a stream was delivered, for whoever ends a request whose process is gone.
import type { Observer } from '../../core/contract/contract.ts'
import type { Reservation } from '../../core/store/ledger.ts'

/**
 * The number of events, which are about tokens, after which a stream tells how much was delivered. A crash loses the
 * charge of no more than so many.
 */
const deliveryStep = 64

/** The stage of a stream that tells. */
export function deliveryOf(reservation: Pick<Reservation, 'detached' | 'delivered'>): Observer {
  let events = 0
  // What goes on without its client costs nothing until something of it was shown.
  let next = reservation.detached ? 1 : deliveryStep
  const observe = (): void => {
    if (++events < next) return
    reservation.delivered(events)
    next += deliveryStep
  }
  return { borrows: true, observe }
}
