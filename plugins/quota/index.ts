// Budgets: holds the most a request can cost, and settles what it did cost.
import { countersOf, definePlugin, GatewayError, inForce, isFree, isPriced } from '../../core/contract/contract.ts'
import type { Attempt, Awaitable, Exchange, Ledger, Quote, Reservation } from '../../core/contract/contract.ts'
import {
  caller,
  charge,
  goingOn,
  prompt,
  quote,
  reservation as reserved,
  slot,
  spent,
  usage
} from '../../core/contract/slots.ts'
import { heldInput, offeredTools, searched, toolsOf, typicalInput } from '../estimate.ts'
import { boundOf, within } from './bound.ts'
import type { Metering } from '../../core/contract/operation.ts'
import type { OfferedTools } from '../../core/protocols/hosted-tools.ts'
import type { Bound, BoundSetting } from './bound.ts'
import { orderedPieces, promptUsage } from './prompt.ts'
import { failedCosts, settle } from './settle.ts'
import type { Hold } from './settle.ts'
import { costsFor, linesOf, termsFor, termsOf } from './terms.ts'
import type { Terms } from './terms.ts'
import { billed, holdTurn, openBill } from './turns.ts'

const held = slot('quota/reservation').of<Hold>()
/** The output tokens that the budgets still allow each answer, where they allow fewer than were asked for. */
const clamped = slot('quota/clamped').of<number>()
/** The limit of calls of hosted tools that the gateway gives the upstream. */
const limitedTools = slot('quota/limited-tools').of<number>()

/**
 * The number of events, which are about tokens, after which a stream tells the ledger how much was delivered. After a
 * crash at most so many are not charged.
 */
const deliveryStep = 64

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
    /** Shortens the bound to what the budgets have left, if the request may be answered with less. */
    const affordable = (exchange: Exchange<typeof caller>, whole: Bound, term: Terms): Bound => {
      if (whole.limitedBy === 'request' && !clamp_output) return whole
      const left = services.ledger.affordable(exchange.get(caller).scopes, exchange.receivedAt)
      // A request without a limit gets no fewer tokens than the default, so that its answer is not uselessly short.
      const least = clamp_output ? 1 : Math.min(default_output, whole.output)
      const bound = within(left, whole, term, least)
      const told = bound !== whole || (whole.limitedBy === 'nothing' && left !== undefined)
      if (told) {
        exchange.set(clamped, bound.output)
        exchange.setHeader('X-Sluice-Max-Output', bound.output)
      }
      return bound
    }
    /** Holds the most that a request can cost. */
    const hold = (
      exchange: Exchange<typeof caller>,
      metering: Metering,
      term: Terms,
      tools: OfferedTools | undefined
    ): Awaitable<void> => {
      const ledger = exchange.rehearsal ? looking : services.ledger
      const { scopes } = exchange.get(caller)
      if (tools) {
        const fee = tools.fees.find((name) => !isFree(term.price) && term.price.perMillion[name] === undefined)
        if (fee) throw unpriced(exchange, `no price for ${fee}, which the request offers`)
        exchange.set(offeredTools, tools)
        const told = tools.open > 0 && services.ledger.affordable(scopes, exchange.receivedAt) !== undefined
        if (told) exchange.set(limitedTools, tool_calls)
      }
      const whole = boundOf(exchange, term, metering, setting, tools)
      const bound = affordable(exchange, whole, term)
      const { name, protocol } = exchange.request.operation
      const pieces = orderedPieces(exchange, term.price)
      const estimate = {
        input: pieces ? 0 : Math.min(typicalInput(exchange), bound.units.prompt),
        maxOutput: bound.output * bound.count,
        pieces
      }
      if (exchange.rehearsal) exchange.set(quote, quoteOf(bound, term, exchange.find(clamped)))
      const costs = costsFor(exchange.body, metering, term)
      const reservation = ledger.reserve({
        requestId: exchange.id,
        scopes,
        amount: bound.amount,
        model: exchange.model,
        price: term.price,
        costs,
        estimate,
        time: exchange.receivedAt,
        endpoint: name,
        clientProtocol: protocol,
        streamed: exchange.streaming
      })
      const begin = (made: Reservation): void => {
        const own: Hold = { reservation: made, price: term.price, costs, estimate, abandoned }
        exchange.set(held, own)
        exchange.set(reserved, made)
        exchange.set(heldInput, bound.units.prompt)
        exchange.set(spent, () => failedCosts(exchange, own))
        exchange.set(prompt, () => ({ usage: promptUsage(exchange, term.price), due: abandoned === 'prompt' }))
        exchange.showAfter(() => made.durable)
        exchange.defer((outcome) => (exchange.find(goingOn) ? undefined : settle(exchange, own, outcome)))
      }
      return reservation instanceof Promise ? reservation.then(begin) : begin(reservation)
    }
    const terms = new Map([...catalogue.models.values()].map((model) => [model.name, termsOf(model)]))
    return {
      onRequest(exchange) {
        const { metering } = exchange.request.operation
        if (!metering) return
        const now = inForce(terms.get(exchange.model) ?? [], exchange.receivedAt)
        if (!now) throw unpriced(exchange, 'no price')
        const term = metering.turns ? now : termsFor(exchange.body, metering, now, exchange.model)
        if (!isPriced(term.price, countersOf(metering)))
          throw unpriced(exchange, 'no price for what this endpoint counts')
        if (metering.turns) {
          const ledger = exchange.rehearsal ? looking : services.ledger
          return openBill(exchange, term, ledger, default_output)
        }
        const tools = toolsOf(exchange.body, metering)
        return tools instanceof Promise
          ? tools.then((found) => hold(exchange, metering, term, found))
          : hold(exchange, metering, term, tools)
      },

      onAttempt(exchange, attempt) {
        exchange.find(held)?.reservation.dispatched(attempt.channel.name)
        const most = exchange.find(clamped)
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
        if (!streaming || !reservation) return
        let events = 0
        return {
          observe() {
            if (++events % deliveryStep === 0) reservation.delivered(events)
          }
        }
      }
    }
  }
})

function quoteOf({ amount, units }: Bound, term: Terms, maxOutput: number | undefined): Quote {
  return { amount, priceVersion: term.price.version, lines: linesOf(term, units), maxOutput }
}

function unpriced({ model }: Exchange, reason: string): GatewayError {
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
