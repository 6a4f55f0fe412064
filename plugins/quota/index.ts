// Budgets: holds the most a request can cost, and settles what it did cost.
import { definePlugin, GatewayError, inForce } from '../../core/contract/contract.ts'
import type { Attempt } from '../../core/contract/contract.ts'
import { caller, charge, goingOn, reservation as reserved, slot, spent, usage } from '../../core/contract/slots.ts'
import { heldInput, inputTokens } from '../estimate.ts'
import { boundOf, termsFor, termsOf, within } from './bound.ts'
import { failedCosts, settle } from './settle.ts'
import type { Hold } from './settle.ts'
import { billed, holdTurn, openBill } from './turns.ts'

const held = slot('quota/reservation').of<Hold>()
/** Output tokens that the budget still allows each answer, where that is less than was asked for. */
const clamped = slot('quota/clamped').of<number>()

/**
 * How often a stream tells the ledger how far it is, in events: about tokens. A crash charges at most this much less.
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
        'How many input tokens are held for a request: `worst` one for each byte of its body, which no request exceeds, ' +
        '`typical` one for each three bytes of its text and 85 for anything that is no text, which lets more requests share the end of a budget.'
    },
    default_output: {
      type: 'integer',
      minimum: 1,
      default: 4096,
      description:
        'Output tokens held when a request does not limit its output by itself; the maximum of the model still holds.'
    },
    clamp_output: {
      type: 'boolean',
      default: false,
      description:
        'Near the end of a budget, let a request have as much output as is left for it, instead of refusing it. ' +
        'The reply says how much in `X-Sluice-Max-Output`.'
    }
  },
  needs: [caller],
  awaits: [usage],
  provides: [charge, reserved],
  setup({ estimate, default_output, clamp_output }, { catalogue, services }) {
    const terms = new Map([...catalogue.models.values()].map((model) => [model.name, termsOf(model)]))
    return {
      onRequest(exchange) {
        const { metering } = exchange.request.operation
        if (!metering) return
        const { scopes } = exchange.get(caller)
        const now = inForce(terms.get(exchange.model) ?? [], exchange.receivedAt)
        if (!now)
          throw new GatewayError(
            'price_missing',
            `The model \`${exchange.model.slice(0, 128)}\` has no price, so it cannot be used.`
          )
        if (metering.turns) return openBill(exchange, now, services.ledger, default_output)
        const term = metering.pictures ? termsFor(exchange.body, now) : now
        const whole = boundOf(exchange, term, metering, estimate, default_output)
        const bound = clamp_output
          ? within(services.ledger.affordable(scopes, exchange.receivedAt), whole, term)
          : whole
        if (bound !== whole) {
          exchange.set(clamped, bound.output)
          exchange.setHeader('X-Sluice-Max-Output', bound.output)
        }
        const { name, protocol } = exchange.request.operation
        const reservation = services.ledger.reserve({
          requestId: exchange.id,
          scopes,
          amount: bound.amount,
          model: exchange.model,
          price: term.price,
          estimate: {
            input: Math.min(inputTokens(exchange, 'typical'), bound.input),
            maxOutput: bound.output * bound.count
          },
          time: exchange.receivedAt,
          endpoint: name,
          clientProtocol: protocol,
          streamed: exchange.streaming
        })
        const hold = { reservation, price: term.price }
        exchange.set(held, hold)
        exchange.set(reserved, reservation)
        exchange.set(heldInput, bound.input)
        exchange.set(spent, () => failedCosts(exchange, hold))
        exchange.showAfter(() => reservation.durable)
        exchange.defer((outcome) => (exchange.find(goingOn) ? undefined : settle(exchange, hold, outcome)))
      },

      onAttempt(exchange, attempt) {
        exchange.find(held)?.reservation.dispatched(attempt.channel.name)
        const most = exchange.find(clamped)
        if (most !== undefined) limitOutput(attempt, exchange.request.operation.metering!.outputLimits, most)
      },

      onTurn(exchange, turn) {
        const bill = exchange.find(billed)
        if (bill) holdTurn(exchange, bill, turn, { ledger: services.ledger, estimate, defaultOutput: default_output })
      },

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

/** Lowers the limits that the client gave, or gives one where it gave none. */
function limitOutput({ body }: Attempt, limits: readonly string[], most: number): void {
  const { fields } = body.original
  const settings = new Map<string, Record<string, unknown>>()
  const lower = (field: string, usual?: number): boolean => {
    const [outer, inner] = field.split('.', 2) as [string, string?]
    const inside =
      inner === undefined ? undefined : (settings.get(outer) ?? ((fields.json(outer) ?? {}) as Record<string, unknown>))
    const limit = (inside ? inside[inner!] : fields.number(outer)) ?? usual
    if (typeof limit !== 'number') return false
    const lowered = Math.min(limit, most)
    if (inside) settings.set(outer, { ...inside, [inner!]: lowered })
    body.set(outer, settings.get(outer) ?? lowered)
    return true
  }
  const given = limits.filter((field) => lower(field))
  if (given.length > 0) return
  // Beside the other settings, by whichever of their names these came.
  lower(limits.find((field) => field.includes('.') && fields.has(field.split('.')[0]!)) ?? limits[0]!, most)
}
