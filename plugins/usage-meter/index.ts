// Reads what an answer consumed out of the answer itself, or estimates it where the upstream does not say.
import { definePlugin, Message } from '../../core/contract/contract.ts'
import type { Channel, Exchange } from '../../core/contract/contract.ts'
import { usage } from '../../core/contract/slots.ts'
import { offeredTools } from '../estimate.ts'
import { Meter } from './meter.ts'
import { askedByUs, boundsOf, ShownMetering, UnaskedMetering } from './metering.ts'
import type { Telling } from './metering.ts'
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
    const telling: Telling = { catalogue, bytesPerToken, rejected, estimated }
    /** What was answered of a series that broke off, and that no other attempt went on with. */
    const meterFinished = (exchange: Exchange, attempt: Exchange['attempts'][number]): void => {
      const { finished, protocol } = attempt
      if (attempt.usage || !finished || finished.answers.length === 0) return
      const meter = new Meter(protocol, exchange.body, bytesPerToken, undefined)
      meter.see(new Message('json', finished.text))
      const metered = meter.read(false, () => boundsOf(exchange, catalogue.models.get(attempt.model)))
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
        const meter = new Meter(attempt.protocol, exchange.body, bytesPerToken, tools)
        const Metering =
          streaming && !attempt.translated && askedByUs(exchange, attempt.protocol) ? UnaskedMetering : ShownMetering
        return new Metering(exchange, attempt, meter, telling)
      }
    }
  }
})
