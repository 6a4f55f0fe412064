// Ends holds whose process has gone without ending them, as a start does after a crash. Those that are kept for work
// end with the work.
import { chargeAbandoned, doubted } from '../../money/settlement.ts'
import { noUsage, sumOf } from '../../money/usage.ts'
import type { Hold } from './balance/hold.ts'
import { recoveredRecord } from './recovery/recovery.ts'
import type { RequestLog } from '../requests.ts'
import type { Logger } from '../../telling/log.ts'

/**
 * Gives holds back that were never dispatched, and charges any other the estimated input and what was delivered. Writes
 * the records of the exchanges. Parts end before the whole, whose record has the charges of all: what was charged
 * before, too, as its ledger knows it. Returns what these holds were charged.
 */
export function endAbandoned(holds: readonly Hold[], requests: Pick<RequestLog, 'append'>, log: Logger): bigint {
  const partsFirst = [...holds].sort((one, other) => Number(one.part === '') - Number(other.part === ''))
  return partsFirst.reduce((total, hold) => total + end(hold, requests, log), 0n)
}

function end(hold: Hold, requests: Pick<RequestLog, 'append'>, log: Logger): bigint {
  const { requestId, part, parts, purse, request, progress, amount, price } = hold
  const charged =
    progress.channel === null
      ? undefined
      : chargeAbandoned(request.estimate, progress.delivered, { amount, price }, (usage) =>
          log.error(doubted, { exchange: requestId, usage })
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
          model: hold.sale.model,
          priceVersion: price.version,
          channel: progress.channel,
          endpoint: request.endpoint ?? null,
          clientProtocol: request.clientProtocol ?? null,
          streamed: request.streamed === true,
          time: request.time
        },
        parts ? sumOf(charged?.usage ?? noUsage, parts.usage) : charged?.usage,
        (charged?.amount ?? 0n) + (parts?.amount ?? 0n)
      )
    )
  return charged?.amount ?? 0n
}
