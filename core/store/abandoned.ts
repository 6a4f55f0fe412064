// Ends a hold whose process has gone without ending it, as a start does after a crash.
import { chargeFor, doubted } from '../money/settlement.ts'
import { noUsage } from '../money/usage.ts'
import type { Hold } from './hold.ts'
import { recoveredRecord } from './recovery.ts'
import type { RequestLog } from './requests.ts'
import type { Logger } from '../telling/log.ts'

/**
 * Gives a hold back that was never dispatched, and charges any other the estimated input and what was delivered. Writes
 * the record of the exchange, unless the hold is of a part of it. Returns the charge.
 */
export function endAbandoned(hold: Hold, requests: RequestLog, log: Logger): bigint {
  const { requestId, part, purse, request, progress, amount, price } = hold
  const { input, maxOutput, pieces } = request.estimate
  const prompt = { ...noUsage, input, ...pieces }
  const consumed = { ...prompt, output: Math.min(progress.delivered, maxOutput) }
  const charged =
    progress.channel === null
      ? undefined
      : chargeFor(
          { usage: consumed, source: 'recovered' },
          { amount, price },
          () => prompt,
          () => log.error(doubted, { exchange: requestId, usage: consumed })
        )
  const ended = charged ? hold.settle({ ...charged, channel: progress.channel! }) : hold.void()
  // What could not be written is written with the next batch that can be.
  ended.catch(() => {})
  if (part === '')
    requests.append(
      recoveredRecord(
        {
          requestId,
          scopes: purse.scopes,
          amount,
          model: request.model,
          priceVersion: price.version,
          channel: progress.channel,
          endpoint: request.endpoint ?? null,
          clientProtocol: request.clientProtocol ?? null,
          streamed: request.streamed === true,
          time: request.time
        },
        charged?.usage,
        charged?.amount ?? 0n
      )
    )
  return charged?.amount ?? 0n
}
