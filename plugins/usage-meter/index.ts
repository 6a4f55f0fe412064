// Reads what an answer consumed out of the answer itself, or estimates it where the upstream does not say.
import { definePlugin, inForce, Message } from '../../core/contract/contract.ts'
import type { Channel, Exchange, Model } from '../../core/contract/contract.ts'
import { goingOn, reservation, usage } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Rates } from '../../core/money/price.ts'
import {
  answers,
  estimatedInput,
  heldInput,
  offeredTools,
  outputLimit,
  promptsOf,
  searchOf,
  soundOf
} from '../estimate.ts'
import { chargeableAt } from './conversion.ts'
import { Meter } from './meter.ts'
import type { Bounds } from './meter.ts'
import { together, usageOf } from './turns.ts'

export default definePlugin({
  name: 'usage-meter',
  summary:
    'Reads the real usage at the end of every answer, asks streaming upstreams to report it, and labels estimates as such.',
  options: {
    bytes_per_token: {
      type: 'number',
      minimum: 1,
      maximum: 16,
      default: 4,
      description:
        'UTF-8 bytes of text counted as one token where an upstream reports no usage, for the prompt and for the answer. ' +
        'Pictures, sounds and files of the prompt count as 85 tokens each.'
    }
  },
  rehearses: true,
  provides: [usage],
  setup({ bytes_per_token: bytesPerToken }, { catalogue, log, metrics }) {
    const told = new Set<Channel>()
    const rejected = metrics.counter({
      name: 'usage_rejected_total',
      help: 'Usage reports that could not be true (negative, fractional, parts above their whole) and were replaced by an estimate.',
      labels: ['channel']
    })
    const estimated = metrics.counter({
      name: 'usage_estimated_total',
      help: 'Answers whose usage is an estimate.',
      labels: ['channel']
    })
    /** What was answered of a series that broke off, and that no other attempt went on with. */
    const meterFinished = (exchange: Exchange, attempt: Exchange['attempts'][number]): void => {
      const { finished, protocol } = attempt
      if (attempt.usage || !finished || finished.answers.length === 0) return
      const bounds = (): ReturnType<Bounds> => boundsOf(exchange, catalogue.models.get(attempt.model))
      const meter = new Meter(protocol, exchange.body, bytesPerToken, bounds, undefined)
      meter.see(new Message('json', finished.text))
      const metered = meter.read(false)
      // An estimate would be of all that was asked for.
      if (metered.source === 'upstream') attempt.usage = { ...metered, source: 'partial' }
    }

    return {
      onRequest(exchange) {
        if (!exchange.request.operation.metering) return
        exchange.defer(() => {
          for (const attempt of exchange.attempts) meterFinished(exchange, attempt)
          const metered = exchange.attempts.at(-1)?.usage
          if (metered) exchange.set(usage, metered)
        })
      },
      onAttempt(exchange, attempt) {
        const ask = exchange.streaming && !attempt.translated && attempt.protocol.askForUsage(exchange.body.lens)
        if (ask && attempt.mayAdd(ask.key)) attempt.body.setRaw(ask.key, ask.json)
      },
      onSettled({ attempts }) {
        if (attempts.length < 2) return
        attempts.forEach(({ channel, added, error }, index) => {
          const next = attempts[index + 1]
          // The same channel answered the request when it was sent again without the added member.
          if (!added || !error || next?.channel !== channel || next.added || next.error || told.has(channel)) return
          told.add(channel)
          log.warn(
            `a channel does not take ${added}: the usage of its streams is estimated unless it is told all the same`,
            {
              channel: channel.name,
              hint: `say "usage: { stream_options: false }" in channels.${channel.name} of gateway.yaml: then it is not asked after a start or a reload either`
            }
          )
        })
      },
      onTurn(exchange, turn) {
        turn.measure(() => {
          const attempt = exchange.attempts.at(-1)!
          const { name: channel } = attempt.channel
          if (turn.reported === 'insane') rejected.add({ channel })
          turn.usage = usageOf(turn)
          if (!turn.usage) return
          if (turn.usage.source !== 'upstream') estimated.add({ channel })
          attempt.usage = together(attempt.usage, turn.usage)
        })
      },
      onResponse(exchange, { attempt, streaming, frames }) {
        const { metering } = exchange.request.operation
        // Four kinds of answers are not metered here: the gateway's own, those of sessions, whose turns are metered,
        // those of free operations, and those that begin work, which is metered at its end.
        if (!attempt || frames || !metering || metering.later) return
        const tools = exchange.find(offeredTools) && metering.tools!.counting()
        const bounds = (): ReturnType<Bounds> => boundsOf(exchange, catalogue.models.get(attempt.model))
        const meter = new Meter(attempt.protocol, exchange.body, bytesPerToken, bounds, tools)
        const end = (complete: boolean): void => {
          // The exchange has begun work that goes on, which is metered at its end.
          if (exchange.find(goingOn)) return
          attempt.usage = inPriced(exchange, meter.read(complete), catalogue.models.get(attempt.model), bytesPerToken)
          const { name: channel } = attempt.channel
          if (meter.insane) rejected.add({ channel })
          if (attempt.usage.source === 'estimated' || attempt.usage.source === 'partial') estimated.add({ channel })
        }
        if (!streaming || attempt.translated || !askedByUs(exchange, attempt.protocol))
          return { observe: (message) => meter.see(message), end }
        return {
          takes: 'runs',
          map(message, emit) {
            meter.see(message)
            // The client did not ask for this usage, and SDKs fail on a chunk without choices.
            const data = message.kind === 'event' ? attempt.protocol.withoutUsage(message) : undefined
            if (data === undefined) emit(message)
            else if (data !== 'nothing') emit(message.withData(data))
          },
          end
        }
      }
    }
  }
})

/**
 * Returns the bounds of an estimate: of the prompt by what the model reads and what was held, of the answer by its
 * limits.
 */
function boundsOf(exchange: Exchange, model: Model | undefined): ReturnType<Bounds> {
  const { body, request } = exchange
  const metering = request.operation.metering!
  const most = Math.min(readAtMost(exchange, model), exchange.find(heldInput) ?? Infinity)
  const limit = metering.outputLimits.length > 0 ? (outputLimit(body, metering) ?? Infinity) : Infinity
  const output = Math.min(limit, model?.maxOutputTokens ?? Infinity) * answers(body, metering)
  const sound = ratesOf(exchange, model)?.second !== undefined ? soundOf(body, metering) : undefined
  return { input: (bytesPerToken) => estimatedInput(exchange, bytesPerToken, most), output, sound }
}

/**
 * Returns the most tokens that the model reads. It reads each prompt of a list, and each searched document, by itself.
 */
function readAtMost({ body, request }: Exchange, model: Model | undefined): number {
  const metering = request.operation.metering!
  if (model?.contextWindow === undefined || metering.searched) return Infinity
  return model.contextWindow * promptsOf(body, metering)
}

/** Converts a usage to units that the price of the request has. */
function inPriced(
  exchange: Exchange,
  metered: MeteredUsage,
  model: Model | undefined,
  bytesPerToken: number
): MeteredUsage {
  const rates = ratesOf(exchange, model)
  const { body, request } = exchange
  const metering = request.operation.metering!
  if (!rates) return metered
  return chargeableAt(metered, rates, () => ({
    searches: searchOf(body, metering)?.units ?? 0,
    seconds: soundOf(body, metering)?.second ?? 0,
    input: estimatedInput(exchange, bytesPerToken, exchange.find(heldInput) ?? Infinity)
  }))
}

/** The rates of the hold, which may be those of a service tier or a kind of picture; else those of the model. */
function ratesOf(exchange: Exchange, model: Model | undefined): Rates | undefined {
  const price = exchange.find(reservation)?.price ?? (model && inForce(model.prices, exchange.receivedAt)?.price)
  return price?.perMillion
}

function askedByUs({ body }: Exchange, protocol: ConstructorParameters<typeof Meter>[0]): boolean {
  return protocol.askForUsage(body.lens) !== undefined
}
