// Ends a hold whose process has gone without ending it, as a start does after a crash.
import { chargeAbandoned, doubted } from '../../money/settlement.ts'
import { noUsage, sumOf } from '../../money/usage.ts'
import type { Hold } from './balance/hold.ts'
import { recoveredRecord } from './recovery/recovery.ts'
import type { PartCharges } from './segments/holds.ts'
import type { RequestLog } from '../requests.ts'
import type { Logger } from '../../telling/log.ts'

/**
 * Gives a hold back that was never dispatched, and charges any other the estimated input and what was delivered. Writes
 * the record of the exchange, unless the hold is of a part of it. `parts`: what was charged for its parts, which are in
 * the record. Returns the charge of the hold.
 */
export function endAbandoned(
  hold: Hold,
  requests: Pick<RequestLog, 'append'>,
  log: Logger,
  parts?: PartCharges
): bigint {
  const { requestId, part, purse, request, progress, amount, price } = hold
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
        parts?.usage ? sumOf(charged?.usage ?? noUsage, parts.usage) : charged?.usage,
        (charged?.amount ?? 0n) + (parts?.amount ?? 0n)
      )
    )
  return charged?.amount ?? 0n
}
