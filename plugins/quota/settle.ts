// What an exchange is charged in the end, and what its failed attempts cost.
import { chargeFor, doubted, GatewayError, noUsage, uncomputed } from '../../core/contract/contract.ts'
import type { Attempt, Exchange, Outcome } from '../../core/contract/contract.ts'
import { charge } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { reasons } from '../../core/errors.ts'
import type { Price } from '../../core/money/price.ts'
import type { Charged } from '../../core/money/settlement.ts'
import type { AttemptCost, Reservation, ReserveRequest, Sale } from '../../core/store/ledger.ts'
import type { Usage } from '../../core/money/usage.ts'
import type { Bound } from './bound.ts'
import { orderedUsage, promptUsage } from './prompt.ts'

type Source = MeteredUsage['source']

/** What a request costs with one of the models that may answer it. */
export interface Stake extends Sale {
  readonly bound: Bound
  /** The output tokens that the budgets still allow each answer, where they allow fewer than were asked for. */
  readonly limit: number | undefined
  /** What is charged where computing the charge fails. */
  readonly estimate: ReserveRequest['estimate']
}

/** A reservation, with what it was made for; no reload changes it. */
export interface Hold {
  reservation: Reservation
  /** By model, in the order in which they are asked; never empty. */
  stakes: readonly Stake[]
  /** Of the model that was asked last. */
  stake: Stake
  /** What a client is charged for when it leaves before any of the answer was shown or counted. */
  abandoned: 'prompt' | 'nothing'
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

/** What an attempt costs, whose model is one of those that were held for. */
export function stakeOf({ stakes }: Hold, { model }: Attempt): Stake {
  return stakes.find((stake) => stake.model === model) ?? stakes[0]!
}

/** Returns the cost of each attempt that was sent, without the last one; undefined when there are none. */
export function failedCosts(exchange: Exchange, hold: Hold): readonly AttemptCost[] | undefined {
  return knownCosts(exchange, exchange.attempts.filter(wasSent).slice(0, -1), hold)
}

/** Throws the error that a client gets when its exchange could not be settled. */
export function refuse(cause: unknown): never {
  throw new GatewayError('billing_unavailable', 'The answer could not be accounted for. Try again.', {
    retryAfterMs: 1000,
    cause
  })
}

function ended(exchange: Exchange, hold: Hold, outcome: Outcome): Promise<void> {
  const { reservation } = hold
  const { price } = reservation
  const { attempts } = exchange
  // Nearly always there is one attempt, and it was sent.
  const sent = attempts.every(wasSent) ? attempts : attempts.filter(wasSent)
  const last = sent.at(-1)
  const due = last && dueFor(exchange, last, outcome, hold)
  if (!due) return reservation.void(knownCosts(exchange, sent, hold))
  const { usage, amount, source } = due
  const costs = sent.length > 1 ? knownCosts(exchange, sent.slice(0, -1), hold) : undefined
  const settled = reservation.settle({ usage, amount, source, channel: last.channel.name, ...(costs && { costs }) })
  // The slot is set after the settlement, because an amount that the ledger refuses was not charged.
  exchange.set(charge, { amount, reserved: reservation.amount, priceVersion: price.version, usage, source })
  return settled
}

/** The charge that ends the hold; undefined when nothing is due. A hold must end, so this throws nothing. */
function dueFor(exchange: Exchange, last: Attempt, outcome: Outcome, hold: Hold): Charged<Source> | undefined {
  try {
    const metered = chargeable(exchange, last, outcome, hold)
    return metered && charged(exchange, metered, hold)
  } catch (cause) {
    exchange.log.error(uncomputed, { error: reasons(cause) })
    const { kind, bytes } = outcome
    if (kind === 'failed' && bytes === 0) return undefined
    const { input, pieces, maxOutput } = hold.stake.estimate
    const usage = { ...noUsage, input, ...pieces, output: Math.min(Math.ceil(bytes / 3), maxOutput) }
    return chargeFor({ usage, source: 'estimated' }, hold.reservation, () => usage, ignore)
  }
}

/** The costs of these attempts, or none where computing them fails: they are no part of the charge. */
function knownCosts(exchange: Exchange, attempts: readonly Attempt[], hold: Hold): AttemptCost[] | undefined {
  try {
    return costsOf(exchange, attempts, hold)
  } catch (cause) {
    exchange.log.error('the cost of failed attempts could not be computed', { error: reasons(cause) })
    return undefined
  }
}

/**
 * The usage to charge; undefined when nothing is due. Read from the attempt, where it stands before any release runs:
 * the slot is filled by one, and the order of two releases is the order of the chain.
 */
function chargeable(
  exchange: Exchange,
  { usage, error }: Attempt,
  { kind, bytes, error: failure }: Outcome,
  { reservation: { price }, abandoned }: Hold
): MeteredUsage | undefined {
  // Nobody counted a whole answer. A missing number is not zero, so the usage is estimated.
  if (kind === 'completed')
    return usage ?? { usage: { ...promptUsage(exchange, price), output: Math.ceil(bytes / 3) }, source: 'estimated' }
  if (usage && (bytes > 0 || (isDue(usage, error) && !failure?.details.unkept))) return usage
  // A client that left or was sent away, and was shown nothing, pays for what it sent: the upstream has it. It does not
  // where the upstream failed.
  const owed = error ? error.source === 'client' && !error.details.untaken : kind === 'aborted'
  if (!owed || abandoned === 'nothing') return undefined
  return usage ?? { usage: orderedUsage(exchange, price), source: 'estimated' }
}

/**
 * Whether an answer of which nothing was shown is charged all the same: its usage was counted to the end and the
 * upstream did not fail, or it is more than the gateway can carry. Otherwise whoever asks for such answers would have
 * them made at the operator's cost. One that the gateway could not keep is its own failure.
 */
function isDue({ source }: MeteredUsage, error: GatewayError | undefined): boolean {
  const counted = source === 'upstream' || source === 'measured'
  return error?.code === 'answer_too_large' || (counted && error?.source !== 'upstream')
}

/** Returns the costs of these attempts, which are journalled beside the charge; undefined when there are none. */
function costsOf(exchange: Exchange, attempts: readonly Attempt[], hold: Hold): AttemptCost[] | undefined {
  if (attempts.length === 0) return undefined
  return attempts.map((attempt) => {
    const stake = stakeOf(hold, attempt)
    const { price, costs } = stake
    const channel = attempt.channel.name
    const costPrice = costs?.get(channel)?.version
    const other = stake === hold.stake ? undefined : { model: stake.model, price: price.version }
    const common = { attempt: attempt.number, channel, costPrice, ...other }
    if (!attempt.usage && !attempt.mayBeRead) return { ...common, usage: noUsage, amount: 0n, source: 'estimated' }
    const metered = attempt.usage ?? { usage: promptUsage(exchange, price), source: 'estimated' }
    return { ...common, ...charged(exchange, metered, hold, price) }
  })
}

function charged(
  exchange: Exchange,
  metered: MeteredUsage,
  { reservation }: Hold,
  price: Price = reservation.price
): Charged<Source> {
  const held = { amount: reservation.amount, price }
  const doubt = (usage: Readonly<Usage>): void => exchange.log.error(doubted, { usage })
  return chargeFor(metered, held, () => promptUsage(exchange, price), doubt)
}

function wasSent({ dispatched }: Attempt): boolean {
  return dispatched
}

function ignore(): void {}
