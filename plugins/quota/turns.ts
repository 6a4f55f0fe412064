// Charges a session: each of its turns is held and settled by itself, in the same budgets.
import {
  chargeFor,
  doubted,
  formatDollars,
  GatewayError,
  noUsage,
  sumOf,
  uncomputed
} from '../../core/contract/contract.ts'
import type { Awaitable, Exchange, Turn } from '../../core/contract/contract.ts'
import { caller, charge, slot } from '../../core/contract/slots.ts'
import type { Charge, MeteredUsage } from '../../core/contract/slots.ts'
import { reasons } from '../../core/errors.ts'
import type { Ledger, Reservation, ReserveRequest } from '../../core/store/ledger.ts'
import type { Charged } from '../../core/money/settlement.ts'
import type { Usage } from '../../core/money/usage.ts'
import type { Scope, Spent } from '../../core/catalogue/caller.ts'
import { turnBound } from './bound.ts'
import { refuse } from './settle.ts'
import type { Terms } from './terms.ts'

/** The sums over the turns of a session so far. */
export interface Bill {
  /** The models that may answer, with their terms; which one does is known when the session is open. */
  readonly offers: readonly { readonly model: string; readonly term: Terms }[]
  model: string
  terms: Terms
  /** The scopes of the key with their budgets, brought up to date about once a second. */
  scopes: readonly Scope[]
  usage: Usage
  amount: bigint
  reserved: bigint
  source: Charge['source']
}

/** Set for the whole session. */
export const billed = slot('quota/bill').of<Bill>()

/** The operator's settings for turns. */
export interface TurnSetting {
  ledger: Ledger
  estimate: 'worst' | 'typical'
  defaultOutput: number
  /** What a turn is charged for when its client leaves before any of it was shown or counted. */
  abandoned: 'prompt' | 'nothing'
}

/**
 * Begins a session. Its budgets must have enough left for one response. The session itself holds nothing, but has a
 * reservation of 0 in the ledger, so that a crash leaves a record of it.
 * @throws GatewayError `quota_<scope>_exceeded`
 */
export function openBill(
  exchange: Exchange<typeof caller>,
  offers: Bill['offers'],
  ledger: Pick<Ledger, 'reserve' | 'affordable'>,
  defaultOutput: number
): Awaitable<void> {
  const { scopes } = exchange.get(caller)
  const { model, term: terms } = offers[0]!
  const common = commonOf(exchange, { model, terms }, scopes)
  const amount = offers
    .map(({ term }) => turnBound(term, 1, undefined, defaultOutput).amount)
    .reduce((most, one) => (one > most ? one : most))
  const begin = (place: Reservation): void => {
    const bill: Bill = {
      offers,
      model,
      terms,
      scopes,
      usage: { ...noUsage },
      amount: 0n,
      reserved: 0n,
      source: 'upstream'
    }
    exchange.set(billed, bill)
    exchange.showAfter(() => place.durable)
    exchange.defer(() => {
      const { amount: spent, reserved, usage, source, terms } = bill
      if (reserved > 0n || spent > 0n)
        exchange.set(charge, { amount: spent, reserved, priceVersion: terms.price.version, usage, source })
      return place.void().catch(refuse)
    })
  }
  const open = (): Awaitable<void> => {
    const place = ledger.reserve({ ...common, amount: 0n, time: exchange.receivedAt })
    return place instanceof Promise ? place.then(begin) : begin(place)
  }
  const go = (left: bigint | undefined): Awaitable<void> => {
    if (left === undefined || left >= amount) return open()
    // This hold is refused, and the refusal names the budget.
    const tried = ledger.reserve({ ...common, part: 'admission', amount, time: exchange.receivedAt })
    if (tried instanceof Promise) return tried.then((made) => made.void()).then(open)
    void tried.void()
    return open()
  }
  const look = (spent?: Spent): Awaitable<void> => {
    if (spent && lacks(exchange, spent, amount)) throw exceeded(exchange, spent, amount)
    const left = ledger.affordable(scopes, exchange.receivedAt)
    return left instanceof Promise ? left.then(go) : go(left)
  }
  const spent = exchange.get(caller).secret?.allowance?.spent()
  return spent instanceof Promise ? spent.then(look) : look(spent)
}

/** The turns of the session are those of this model from now on: the one that is asked to open it. */
export function sellBy(bill: Bill, model: string): void {
  const offer = bill.offers.find((one) => one.model === model)
  if (offer) [bill.model, bill.terms] = [model, offer.term]
}

/**
 * Holds the most that a turn may cost, and settles its cost when it ends. A turn that the upstream began by itself is
 * charged even where the budgets do not have enough left.
 * @throws GatewayError `quota_<scope>_exceeded`
 */
export function holdTurn(
  exchange: Exchange<typeof caller>,
  bill: Bill,
  turn: Turn,
  { ledger, estimate, defaultOutput, abandoned }: TurnSetting
): Awaitable<void> {
  const { terms, scopes } = bill
  const { output, units, amount } = turnBound(terms, turn.input[estimate], turn.maxOutput, defaultOutput)
  const request: ReserveRequest = {
    ...commonOf(exchange, bill, scopes),
    part: turn.part,
    amount,
    time: Date.now(),
    estimate: { input: Math.min(turn.input.typical, units.prompt), maxOutput: output }
  }
  const allowance = exchange.get(caller).secret?.allowance
  /** By which the allowance knows the turn. */
  const name = `${exchange.id}:${turn.part}`
  const begin = (reservation: Reservation, as = name): void => {
    reservation.dispatched(exchange.attempts.at(-1)!.channel.name)
    turn.showAfter(reservation.durable)
    turn.follow((tokens) => reservation.delivered(tokens))
    turn.defer(() => {
      const before = bill.amount
      const settled = settleTurn(exchange, bill, turn, reservation, abandoned)
      allowance?.end(as, bill.amount - before)
      return settled
    })
  }
  /** What the upstream began by itself is held without an amount, and refused all the same. */
  const refused = (error: unknown): Awaitable<void> => {
    if (turn.asked) throw error
    // Another name: what was held under the first one may still be on its way back.
    const unasked = `${name}:unasked`
    const fail = (reservation: Reservation): never => {
      begin(reservation, unasked)
      throw error
    }
    const go = (): Awaitable<void> => {
      const reservation = ledger.reserve({ ...request, amount: 0n })
      return reservation instanceof Promise ? reservation.then(fail) : fail(reservation)
    }
    const held = allowance?.hold(unasked, 0n)
    // Where it has no place there, its charge counts in the budgets of the key alone.
    return held instanceof Promise ? held.then(go, go) : go()
  }
  const giveBack = (error: unknown): Awaitable<void> => {
    allowance?.end(name, 0n)
    return refused(error)
  }
  const reserve = (): Awaitable<void> => {
    let reservation: Awaitable<Reservation>
    try {
      reservation = ledger.reserve(request)
    } catch (error) {
      return giveBack(error)
    }
    return reservation instanceof Promise ? reservation.then(begin, giveBack) : begin(reservation)
  }
  if (!allowance) return reserve()
  // Held before the ledger answers, because other turns may ask meanwhile.
  const go = (spent: Spent | undefined): Awaitable<void> =>
    spent ? refused(exceeded(exchange, spent, amount)) : reserve()
  const held = allowance.hold(name, amount)
  return held instanceof Promise ? held.then(go, refused) : go(held)
}

/** Whether what a client secret was given to spend cannot carry an amount. */
function lacks(exchange: Exchange<typeof caller>, { posted, pending }: Spent, amount: bigint): boolean {
  const { limit } = exchange.get(caller).secret!.allowance!
  return amount > limit - posted - pending
}

/** The refusal of an amount that what a client secret was given to spend cannot carry. */
function exceeded(exchange: Exchange<typeof caller>, { posted, pending }: Spent, amount: bigint): GatewayError {
  const { key, secret } = exchange.get(caller)
  const { limit } = secret!.allowance!
  const rest = limit - posted - pending
  const left = rest > 0n ? rest : 0n
  return new GatewayError(
    'quota_key_exceeded',
    `A response may cost up to ${formatDollars(amount)} USD, and ${formatDollars(left)} USD of what this client secret may spend is left.`,
    {
      reason: {
        by: 'budget',
        level: 'key',
        scope: `key:${key}`,
        per: 'secret',
        limit_nano: String(limit),
        asked_nano: String(amount),
        posted_nano: String(posted),
        pending_nano: String(pending),
        left_nano: String(left),
        free_at: null
      }
    }
  )
}

function settleTurn(
  exchange: Exchange,
  bill: Bill,
  turn: Turn,
  reservation: Reservation,
  abandoned: TurnSetting['abandoned']
): Promise<void> {
  try {
    const due = dueFor(exchange, turn, reservation, abandoned)
    if (!due) return reservation.void().catch(refuse)
    const { usage, amount, source } = due
    const settled = reservation.settle({ usage, amount, source, channel: exchange.attempts.at(-1)!.channel.name })
    bill.usage = sumOf(bill.usage, usage)
    bill.amount += amount
    bill.reserved += reservation.amount
    if (source !== 'upstream') bill.source = source
    return settled.catch(refuse)
  } catch (cause) {
    return refuse(cause)
  }
}

/** The charge that ends the hold of a turn; undefined when nothing is due. A hold must end, so this throws nothing. */
function dueFor(
  exchange: Exchange,
  turn: Turn,
  reservation: Reservation,
  abandoned: TurnSetting['abandoned']
): Charged<MeteredUsage['source']> | undefined {
  const prompt = { ...noUsage, input: turn.input.typical }
  try {
    const left: MeteredUsage | undefined =
      turn.abandoned && abandoned === 'prompt' ? { usage: prompt, source: 'estimated' } : undefined
    const metered = turn.usage ?? left
    const doubt = (unlikely: Readonly<Usage>): void => exchange.log.error(doubted, { usage: unlikely })
    return metered && chargeFor(metered, reservation, () => prompt, doubt)
  } catch (cause) {
    exchange.log.error(uncomputed, { error: reasons(cause) })
    const usage = { ...prompt, output: turn.output }
    return chargeFor(
      { usage, source: 'estimated' },
      reservation,
      () => prompt,
      () => {}
    )
  }
}

function commonOf(
  exchange: Exchange<typeof caller>,
  { model, terms: { price, costs } }: Pick<Bill, 'model' | 'terms'>,
  scopes: readonly Scope[]
): Omit<ReserveRequest, 'amount' | 'time'> {
  const { name, protocol } = exchange.request.operation
  return {
    requestId: exchange.id,
    scopes,
    model,
    price,
    costs,
    estimate: { input: 0, maxOutput: 0 },
    endpoint: name,
    clientProtocol: protocol,
    streamed: true
  }
}
