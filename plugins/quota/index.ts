// Budgets: holds the most a request can cost, and settles what it did cost.
import { definePlugin, GatewayError } from '../../core/contract.ts'
import { caller, charge, slot, usage } from '../../core/slots.ts'
import { inputTokens } from '../estimate.ts'
import { boundOf, termsOf } from './bound.ts'
import { settle } from './settle.ts'
import type { Hold } from './settle.ts'

const held = slot<Hold>('reservation')

/** How often a stream tells the ledger how far it is, in events: about tokens. A crash charges at most this much less. */
const deliveryStep = 64

export default definePlugin({
  name: 'quota',
  summary: 'Reserves the most a request can cost in every budget above its key, and settles the real cost when it ends.',
  options: {
    estimate: {
      type: 'string',
      enum: ['worst', 'typical'],
      default: 'worst',
      description:
        'How many input tokens are held for a request: `worst` one for each byte of its body, which no request exceeds, ' +
        '`typical` one for each three bytes, which lets more requests share the end of a budget.'
    },
    default_output: {
      type: 'integer',
      minimum: 1,
      default: 4096,
      description: 'Output tokens held when a request does not limit its output by itself; the maximum of the model still holds.'
    }
  },
  needs: [caller],
  awaits: [usage],
  provides: [charge],
  setup({ estimate, default_output }, { catalogue, services }) {
    const terms = new Map([...catalogue.models.values()].map((model) => [model.name, termsOf(model)]))
    return {
      onRequest(exchange) {
        if (!exchange.request.endpoint.billable) return
        const { scopes } = exchange.get(caller)
        const term = terms.get(exchange.model)
        if (!term) throw new GatewayError('price_missing', `The model \`${exchange.model.slice(0, 128)}\` has no price, so it can not be used.`)
        const bound = boundOf(exchange.body, term, estimate, default_output)
        const reservation = services.ledger.reserve({
          requestId: exchange.id,
          scopes,
          amount: bound.amount,
          model: exchange.model,
          price: term.price,
          estimate: { input: inputTokens(exchange.body, 'typical'), maxOutput: bound.output },
          time: exchange.receivedAt
        })
        const hold = { reservation, price: term.price }
        exchange.set(held, hold)
        exchange.hold(reservation.durable)
        exchange.defer((outcome) => settle(exchange, hold, outcome))
      },

      onAttempt(exchange, attempt) {
        exchange.find(held)?.reservation.dispatched(attempt.channel.name)
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
