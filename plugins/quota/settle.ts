// What an exchange is charged in the end, and what its failed attempts cost.
import { costOf, noUsage } from '../../core/contract.ts'
import type { Attempt, Exchange, Outcome } from '../../core/contract.ts'
import { charge } from '../../core/slots.ts'
import type { MeteredUsage } from '../../core/slots.ts'
import type { Price } from '../../core/price.ts'
import type { AttemptCost, Reservation } from '../../core/store/ledger.ts'
import type { Usage } from '../../core/usage.ts'
import { inputTokens } from '../estimate.ts'

/** A reservation with the price it was made at; no reload changes it. */
export interface Hold {
  reservation: Reservation
  price: Price
}

/**
 * Ends the reservation, once: a charge for what was consumed, or everything back. Fills the slot `charge` before it
 * returns; the promise resolves when the end is on disk.
 */
export function settle(exchange: Exchange, { reservation, price }: Hold, outcome: Outcome): Promise<void> {
  const sent = exchange.attempts.filter((attempt) => attempt.dispatched)
  const last = sent.at(-1)
  const metered = last && chargeable(exchange, last, outcome)
  if (!metered) return reservation.void(costsOf(exchange, sent, price))
  const amount = costOf(metered.usage, price)
  exchange.set(charge, { amount, reserved: reservation.amount, priceVersion: price.version, source: metered.source })
  const costs = costsOf(exchange, sent.slice(0, -1), price)
  return reservation.settle({ usage: metered.usage, amount, source: metered.source, channel: last.channel.name, ...(costs && { costs }) })
}

/**
 * The usage to charge; undefined when nothing is due. Read from the attempt, where it stands before any release runs:
 * the slot is filled by one, and the order of two releases is the order of the chain.
 */
function chargeable(exchange: Exchange, { usage }: Attempt, { kind, bytes }: Outcome): MeteredUsage | undefined {
  // A whole answer that nobody counted: a missing number is not zero.
  if (!usage) return kind === 'completed' ? { usage: { ...promptOf(exchange), output: Math.ceil(bytes / 3) }, source: 'estimated' } : undefined
  // A failure that showed the client nothing is charged only when the upstream itself has counted it.
  return kind === 'failed' && bytes === 0 && usage.source !== 'upstream' ? undefined : usage
}

/** Rows for attempts that were sent and are not the charge itself; undefined when there are none. */
function costsOf(exchange: Exchange, attempts: readonly Attempt[], price: Price): AttemptCost[] | undefined {
  if (attempts.length === 0) return undefined
  return attempts.map((attempt) => {
    const { usage, source } = attempt.usage ?? { usage: mayBeBilled(attempt) ? promptOf(exchange) : noUsage, source: 'estimated' }
    return { attempt: attempt.number, channel: attempt.channel.name, usage, amount: costOf(usage, price), source }
  })
}

/** An upstream that took the request and then failed has read the prompt; one that refused it or was not reached has not. */
function mayBeBilled({ status, error }: Attempt): boolean {
  return (status === undefined || status < 300) && error?.code !== 'upstream_connection_failed'
}

function promptOf({ body }: Exchange): Usage {
  return { ...noUsage, input: inputTokens(body, 'typical') }
}
