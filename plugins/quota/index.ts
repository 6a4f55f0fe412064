// Budgets: holds the most a request can cost, and settles what it did cost.
import {
  countersOf,
  definePlugin,
  GatewayError,
  inForce,
  isFree,
  isPriced,
  modelsFor
} from '../../core/contract/contract.ts'
import type {
  Attempt,
  Awaitable,
  Exchange,
  Ledger,
  Model,
  Quote,
  Reservation,
  Slot
} from '../../core/contract/contract.ts'
import {
  caller,
  charge,
  goingOn,
  prompt,
  quote,
  refusedModels,
  reservation as reserved,
  slot,
  spent,
  usage
} from '../../core/contract/slots.ts'
import { heldInput, offeredTools, searched, toolsOf, typicalInput } from '../estimate.ts'
import { boundOf, within } from './bound.ts'
import type { Metering } from '../../core/contract/operation.ts'
import type { OfferedTools } from '../../core/protocols/counting/hosted-tools.ts'
import type { Bound, BoundSetting } from './bound.ts'
import { deliveryOf } from './delivery.ts'
import { orderedPieces, promptUsage } from './prompt.ts'
import { failedCosts, settle, stakeOf } from './settle.ts'
import type { Hold, Stake } from './settle.ts'
import { dearestOf, holdWhatIsLeft } from './shorten.ts'
import { costsFor, linesOf, termsFor, termsOf } from './terms.ts'
import type { Terms } from './terms.ts'
import { billed, holdTurn, openBill, sellBy } from './turns.ts'

const held = slot('quota/reservation').of<Hold>()
/** A model that may answer, and the terms of the request with it. */
interface Offer {
  readonly model: string
  readonly term: Terms
}

/** An offer, and the most that the request can cost with it. */
interface Whole {
  readonly offer: Offer
  readonly bound: Bound
}

/** The slot `refusedModels`, with the type needed to fill it. */
const refusals = refusedModels as Slot<Map<string, GatewayError>>
/** The limit of calls of hosted tools that the gateway gives the upstream. */
const limitedTools = slot('quota/limited-tools').of<number>()

export default definePlugin({
  name: 'quota',
  summary:
    'Reserves the most a request can cost in every budget above its key, and settles the real cost when it ends.',
  options: {
    estimate: {
      type: 'string',
      enum: ['worst', 'typical'],
      default: 'worst',
      description:
        'How many input tokens are held for a request: `worst` one for each byte of its body and 50,000 for a ' +
        'picture, or the whole context of the model where it brings what nobody can see (a document, something that ' +
        'is kept elsewhere), which no request exceeds; `typical` one for each three bytes of its text and 85 for ' +
        'anything that is no text, which lets more requests share the end of a budget.'
    },
    default_output: {
      type: 'integer',
      minimum: 1,
      default: 4096,
      description:
        'Output tokens of a request that does not limit them. Where the model has `max_output_tokens` that many are ' +
        'held, and near the end of a budget as many as are left, but no fewer than these. Where it has none, ' +
        'requests under a budget are sent with this limit.'
    },
    default_context: {
      type: 'integer',
      minimum: 1,
      default: 200_000,
      description: 'Input tokens held for what nobody can see in a request, where the model has no `context_window`.'
    },
    tool_calls: {
      type: 'integer',
      minimum: 1,
      default: 16,
      description:
        "Calls of an upstream's own tools that are held for, for each limit that a request leaves open, each with the " +
        'context of the model that is read again. Under a budget the upstream is told them as its limit, where it takes one.'
    },
    clamp_output: {
      type: 'boolean',
      default: false,
      description:
        'Near the end of a budget, let a request that limits its output have as much of it as is left, instead of ' +
        'refusing it. The reply says how much in `X-Sluice-Max-Output`.'
    },
    abandoned: {
      type: 'string',
      enum: ['prompt', 'nothing'],
      default: 'prompt',
      description:
        'What a request costs whose client leaves, or calls it off, after it was sent upstream and before anything of ' +
        'the answer was shown or counted: its `prompt`, which the upstream has read by then, and the pictures that it ' +
        'ordered, or `nothing`.'
    }
  },
  rehearses: true,
  needs: [caller],
  awaits: [usage],
  provides: [charge, reserved],
  setup({ estimate, default_output, default_context, tool_calls, clamp_output, abandoned }, { catalogue, services }) {
    const setting: BoundSetting = {
      estimate,
      defaultOutput: default_output,
      defaultContext: default_context,
      toolCalls: tool_calls
    }
    /** The ledger for requests that are only explained. */
    const looking: Pick<Ledger, 'reserve' | 'affordable'> = {
      reserve: (request) => services.ledger.look(request),
      affordable: (scopes, time) => services.ledger.affordable(scopes, time)
    }
    /** Whether a request with this bound may be answered with less than it asks for. */
    const mayShorten = ({ limitedBy }: Bound): boolean => limitedBy !== 'request' || clamp_output
    /**
     * Shortens the bound to what the budgets have `left`, if the request may be answered with less; undefined for
     * enough. `limit`: what the upstream is told then, and where there are `budgets` and nothing limits the answer.
     */
    const shortened = (
      whole: Bound,
      left: bigint | undefined,
      term: Terms,
      budgets: boolean
    ): Pick<Stake, 'bound' | 'limit'> => {
      if (!mayShorten(whole)) return { bound: whole, limit: undefined }
      // A request without a limit gets no fewer tokens than the default, so that its answer is not uselessly short.
      const least = clamp_output ? 1 : Math.min(default_output, whole.output)
      const bound = within(left, whole, term, least)
      const told = bound !== whole || (whole.limitedBy === 'nothing' && budgets)
      return { bound, limit: told ? bound.output : undefined }
    }
    /** The most that a request costs with one model. @throws GatewayError `price_missing` for tools without a fee */
    const wholeFor = (
      exchange: Exchange<typeof caller>,
      metering: Metering,
      offer: Offer,
      tools: OfferedTools | undefined
    ): Whole => {
      const { model, term } = offer
      const fee = tools?.fees.find((name) => !isFree(term.price) && term.price.perMillion[name] === undefined)
      if (fee) throw unpriced(model, `no price for ${fee}, which the request offers`)
      return { offer, bound: boundOf(exchange, term, metering, setting, tools) }
    }
    /** What a request costs with one model, where so much is left in the budgets. */
    const stakeFor = (
      exchange: Exchange<typeof caller>,
      metering: Metering,
      { offer: { model, term }, bound: whole }: Whole,
      left: bigint | undefined
    ): Stake => {
      const { bound, limit } = shortened(whole, left, term, hasBudgets(exchange))
      const pieces = orderedPieces(exchange, term.price)
      const estimate = {
        input: pieces ? 0 : Math.min(typicalInput(exchange), bound.units.prompt),
        maxOutput: bound.output * bound.count,
        pieces
      }
      return { model, price: term.price, costs: costsFor(exchange.body, metering, term), bound, limit, estimate }
    }
    /** Holds the most that a request can cost, or as much of it as is left where it may be answered with less. */
    const hold = (
      exchange: Exchange<typeof caller>,
      metering: Metering,
      offers: readonly Offer[],
      tools: OfferedTools | undefined
    ): Awaitable<void> => {
      if (tools) exchange.set(offeredTools, tools)
      if (tools && tools.open > 0 && hasBudgets(exchange)) exchange.set(limitedTools, tool_calls)
      const wholes = chargeable(exchange, offers, (offer) => wholeFor(exchange, metering, offer, tools))
      const stakesFor = (left: bigint | undefined): Stake[] =>
        wholes.map((whole) => stakeFor(exchange, metering, whole, left))
      const holdAll = (stakes: readonly Stake[]): Awaitable<void> => holdOf(exchange, wholes, stakes)
      if (!exchange.rehearsal) return holdWhatIsLeft(stakesFor, holdAll)
      const go = (left: bigint | undefined): Awaitable<void> => holdAll(stakesFor(left))
      const left = services.ledger.affordable(exchange.get(caller).scopes, exchange.receivedAt)
      return left instanceof Promise ? left.then(go) : go(left)
    }
    /** Holds the most that a request can cost, with the dearest of the models that may answer it. */
    const holdOf = (
      exchange: Exchange<typeof caller>,
      wholes: readonly Whole[],
      stakes: readonly Stake[]
    ): Awaitable<void> => {
      const ledger = exchange.rehearsal ? looking : services.ledger
      const { scopes } = exchange.get(caller)
      const first = stakes[0]!
      const dearest = dearestOf(stakes)
      const { name, protocol } = exchange.request.operation
      if (exchange.rehearsal) {
        const { offer } = wholes[stakes.indexOf(dearest)]!
        exchange.set(quote, quoteOf(dearest, offer.term))
      }
      const reservation = ledger.reserve({
        requestId: exchange.id,
        scopes,
        amount: dearest.bound.amount,
        model: first.model,
        price: first.price,
        costs: first.costs,
        estimate: first.estimate,
        time: exchange.receivedAt,
        endpoint: name,
        clientProtocol: protocol,
        streamed: exchange.streaming
      })
      const begin = (made: Reservation): void => {
        if (first.limit !== undefined) exchange.setHeader('X-Sluice-Max-Output', first.limit)
        const own: Hold = { reservation: made, stakes, stake: first, abandoned }
        exchange.set(held, own)
        exchange.set(reserved, made)
        exchange.set(heldInput, Math.max(...stakes.map(({ bound }) => bound.units.prompt)))
        exchange.set(spent, () => failedCosts(exchange, own))
        exchange.set(prompt, () => ({ usage: promptUsage(exchange, made.price), due: abandoned === 'prompt' }))
        exchange.showAfter(() => made.durable)
        exchange.defer((outcome) => (exchange.find(goingOn) ? undefined : settle(exchange, own, outcome)))
      }
      return reservation instanceof Promise ? reservation.then(begin) : begin(reservation)
    }
    const known = new WeakMap<Model, readonly Terms[]>()
    const allTerms = (model: Model): readonly Terms[] => {
      let terms = known.get(model)
      if (!terms) known.set(model, (terms = termsOf(model)))
      return terms
    }
    /** @throws GatewayError where the model has no price for the request */
    const offerFor = (exchange: Exchange, metering: Metering, model: Model): Offer => {
      const now = inForce(allTerms(model), exchange.receivedAt)
      if (!now) throw unpriced(model.name, 'no price')
      const term = metering.turns ? now : termsFor(exchange.body, metering, now, model.name)
      if (!isPriced(term.price, countersOf(metering)))
        throw unpriced(model.name, 'no price for what this endpoint counts')
      return { model: model.name, term }
    }
    return {
      onRequest(exchange) {
        const { metering } = exchange.request.operation
        if (!metering) return
        const models = modelsFor(exchange, catalogue)
        if (models.length === 0) throw unpriced(exchange.model, 'no price')
        const offers = chargeable(exchange, models, (model) => offerFor(exchange, metering, model))
        if (metering.turns) {
          const ledger = exchange.rehearsal ? looking : services.ledger
          return openBill(exchange, offers, ledger, default_output)
        }
        const tools = toolsOf(exchange.body, metering)
        return tools instanceof Promise
          ? tools.then((found) => hold(exchange, metering, offers, found))
          : hold(exchange, metering, offers, tools)
      },

      onAttempt(exchange, attempt) {
        const own = exchange.find(held)
        const bill = exchange.find(billed)
        if (bill && bill.model !== attempt.model) sellBy(bill, attempt.model)
        const stake = own && stakeOf(own, attempt)
        own?.reservation.dispatched(attempt.channel.name, stake === own.stake ? undefined : stake)
        if (own) own.stake = stake!
        const most = stake?.limit
        if (most !== undefined && stake !== own?.stakes[0]) exchange.setHeader('X-Sluice-Max-Output', most)
        const calls = exchange.find(limitedTools)
        const hosted = exchange.request.operation.metering?.tools
        if (most !== undefined) limitOutput(attempt, exchange.request.operation.metering!.outputLimits, most)
        // A translated request has no hosted tools.
        if (calls === undefined || !hosted?.limit || attempt.translated) return undefined
        if (hosted.adds !== undefined && !attempt.mayAdd(hosted.adds)) return undefined
        const search = hosted.limit(attempt.body, calls)
        const set = search && searched(search)
        return set instanceof Promise ? set.then(() => {}) : undefined
      },

      whileOpen(exchange) {
        const bill = exchange.find(billed)
        const opened = exchange.find(caller)
        if (bill && opened) bill.scopes = catalogue.scopesNow(opened)
      },

      onTurn(exchange, turn) {
        const bill = exchange.find(billed)
        if (bill)
          return holdTurn(exchange, bill, turn, {
            ledger: services.ledger,
            estimate,
            defaultOutput: default_output,
            abandoned
          })
      },

      reportStandings: ({ scopes }) => services.ledger.standings(scopes, Date.now()),

      onResponse(exchange, { streaming }) {
        const reservation = exchange.find(held)?.reservation
        return streaming && reservation ? deliveryOf(reservation) : undefined
      }
    }
  }
})

function quoteOf({ bound: { amount, units }, limit }: Stake, term: Terms): Quote {
  return { amount, priceVersion: term.price.version, lines: linesOf(term, units), maxOutput: limit }
}

/**
 * What `of` makes of each model that may answer. Where it refuses some, they are not asked.
 * @throws GatewayError what it refuses the first with, when it refuses all
 */
function chargeable<T extends Model | Offer, U>(
  exchange: Exchange,
  all: readonly T[],
  of: (one: T) => U
): readonly U[] {
  if (all.length === 1) return [of(all[0]!)]
  const made: U[] = []
  const refused = exchange.find(refusals) ?? new Map<string, GatewayError>()
  for (const one of all) {
    try {
      made.push(of(one))
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      refused.set('name' in one ? one.name : one.model, error)
    }
  }
  if (made.length === 0) throw refused.values().next().value!
  if (refused.size > 0 && !exchange.find(refusals)) exchange.set(refusals, refused)
  return made
}

function unpriced(model: string, reason: string): GatewayError {
  const shown = model.slice(0, 128)
  return new GatewayError('price_missing', `The model \`${shown}\` has ${reason}, so it cannot be used.`, {
    reason: {
      by: 'price',
      what: `the model ${shown} has ${reason}`,
      where: `models.${shown}.price`,
      remedy: 'add it there, or say price: free'
    }
  })
}

/** Lowers the limits that the client gave, or gives one where it gave none. */
function limitOutput({ body, channel, translated }: Attempt, limits: readonly string[], most: number): void {
  const { fields } = body.original
  const settings = new Map<string, Record<string, unknown>>()
  const lower = (field: string, usual?: number): boolean => {
    const [outer, inner] = field.split('.', 2) as [string, string?]
    const inside =
      inner === undefined ? undefined : (settings.get(outer) ?? ((fields.json(outer) ?? {}) as Record<string, unknown>))
    // The member inside was checked before: it is a number, or the digits of one.
    const given = inside ? inside[inner!] : fields.number(outer)
    const limit = typeof given === 'string' ? Number(given) : (given ?? usual)
    if (typeof limit !== 'number') return false
    const lowered = Math.min(limit, most)
    if (inside) settings.set(outer, { ...inside, [inner!]: lowered })
    body.set(outer, settings.get(outer) ?? lowered)
    return true
  }
  const given = limits.filter((field) => lower(field))
  if (given.length > 0) return
  // The limit is added under the name that the upstream knows, or beside settings that the client gave.
  const known = translated ? undefined : limits.find((field) => field === channel.traits.maxTokensMember)
  const beside = limits.find((field) => field.includes('.') && fields.has(field.split('.')[0]!))
  lower(known ?? beside ?? limits[0]!, most)
}

function hasBudgets(exchange: Exchange<typeof caller>): boolean {
  return exchange.get(caller).scopes.some(({ budgets }) => budgets.length > 0)
}
