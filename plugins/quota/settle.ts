// What an exchange is charged in the end, and what its failed attempts cost.
import { costOf, GatewayError, incredible, noUsage, withCall } from '../../core/contract/contract.ts'
import type { Attempt, Exchange, Outcome } from '../../core/contract/contract.ts'
import { charge } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Price } from '../../core/money/price.ts'
import type { AttemptCost, Reservation } from '../../core/store/ledger.ts'
import type { Usage } from '../../core/money/usage.ts'
import { estimatedInput, heldInput } from '../estimate.ts'

/** A reservation with the price it was made at; no reload changes it. */
export interface Hold {
  reservation: Reservation
  price: Price
}

/** Usage with what it costs. */
interface Priced extends MeteredUsage {
  amount: bigint
}

/**
 * Ends the reservation, once: a charge for what was consumed, or everything back. Fills the slot `charge` before it
 * returns; the promise resolves when the end is on disk.
 * Whatever fails, it does so with a GatewayError: an answer that nobody accounts for is not given.
 */
export function settle(exchange: Exchange, hold: Hold, outcome: Outcome): Promise<void> {
  try {
    return ended(exchange, hold, outcome).catch(refuse)
  } catch (cause) {
    return refuse(cause)
  }
}

/** What the attempts before the last one that was sent have cost; undefined when there are none. */
export function failedCosts(exchange: Exchange, { price }: Hold): readonly AttemptCost[] | undefined {
  return costsOf(exchange, exchange.attempts.filter((attempt) => attempt.dispatched).slice(0, -1), price)
}

/** What failed, as the error that it is to a client. */
export function refuse(cause: unknown): never {
  throw new GatewayError('billing_unavailable', 'The answer could not be accounted for. Try again.', {
    retryAfterMs: 1000,
    cause
  })
}

function ended(exchange: Exchange, { reservation, price }: Hold, outcome: Outcome): Promise<void> {
  const sent = exchange.attempts.filter((attempt) => attempt.dispatched)
  const last = sent.at(-1)
  const metered = last && chargeable(exchange, last, outcome)
  if (!metered) return reservation.void(costsOf(exchange, sent, price))
  const { usage, amount, source } = priced(exchange, metered, price)
  const costs = costsOf(exchange, sent.slice(0, -1), price)
  const settled = reservation.settle({ usage, amount, source, channel: last.channel.name, ...(costs && { costs }) })
  // What the ledger refuses was not charged.
  exchange.set(charge, { amount, reserved: reservation.amount, priceVersion: price.version, usage, source })
  return settled
}

/**
 * The usage to charge; undefined when nothing is due. Read from the attempt, where it stands before any release runs:
 * the slot is filled by one, and the order of two releases is the order of the chain.
 */
function chargeable(exchange: Exchange, { usage }: Attempt, { kind, bytes }: Outcome): MeteredUsage | undefined {
  // A whole answer that nobody counted: a missing number is not zero.
  if (!usage)
    return kind === 'completed'
      ? { usage: { ...promptOf(exchange), output: Math.ceil(bytes / 3) }, source: 'estimated' }
      : undefined
  // Whoever was shown nothing pays only what the upstream itself has counted to the end.
  return kind !== 'completed' && bytes === 0 && usage.source !== 'upstream' ? undefined : usage
}

/** Rows for attempts that were sent and are not the charge itself; undefined when there are none. */
function costsOf(exchange: Exchange, attempts: readonly Attempt[], price: Price): AttemptCost[] | undefined {
  if (attempts.length === 0) return undefined
  return attempts.map((attempt) => {
    const { number, channel } = attempt
    if (!attempt.usage && !mayBeBilled(attempt))
      return { attempt: number, channel: channel.name, usage: noUsage, amount: 0n, source: 'estimated' }
    const metered = attempt.usage ?? { usage: promptOf(exchange), source: 'estimated' }
    return { attempt: number, channel: channel.name, ...priced(exchange, metered, price) }
  })
}

/** The price applied. */
function priced(exchange: Exchange, { usage, source }: MeteredUsage, price: Price): Priced {
  const units = withCall(usage, price)
  const amount = costOf(units, price)
  if (amount <= incredible) return { usage: units, amount, source }
  exchange.log.error('an upstream reported a usage that cannot be true: the prompt is charged instead', { usage })
  const prompt = withCall(promptOf(exchange), price)
  return { usage: prompt, amount: costOf(prompt, price), source: 'estimated' }
}

/** The transport's code of a connection that was there and got lost. */
const lost = 'SLUICE_LOST'

/**
 * An upstream that took the request and then failed may have read the prompt; one that refused it or was not reached
 * has not.
 */
function mayBeBilled({ status, error }: Attempt): boolean {
  if (status !== undefined) return status < 300
  return (
    error?.code !== 'upstream_connection_failed' ||
    (error.details.cause as NodeJS.ErrnoException | undefined)?.code === lost
  )
}

function promptOf(exchange: Exchange): Usage {
  return { ...noUsage, input: estimatedInput(exchange, 3, exchange.find(heldInput) ?? Infinity) }
}
