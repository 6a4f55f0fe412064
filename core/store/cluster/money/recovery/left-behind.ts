// What a process has left behind that is gone: ends in the log of its node, and holds that nobody goes on with.
import { endAbandoned } from '../../../embedded/abandoned.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { entryColumns, touchColumns } from '../../../embedded/rows/batch.ts'
import type { RequestLog } from '../../../requests.ts'
import type { Spans } from '../../../window.ts'
import type { Usage } from '../../../../money/usage.ts'
import type { Logger } from '../../../../telling/log.ts'
import type { Book } from '../holds/book.ts'
import type { Charge } from '../sending/operations.ts'
import type { Record as Kept } from '../sending/own-log.ts'
import { placesIn } from '../balances/plan.ts'

/**
 * Queues the ends that earlier starts have kept in their logs, where the holds are still open, and progress that the
 * database does not have. Returns the ends whose holds are not there: most of them are in the database.
 */
export function replay(left: readonly Kept[], ledger: Book): Charge[] {
  const late: Charge[] = []
  for (const { touched, entries } of left) {
    for (const row of rowsOf(touched, touchColumns)) {
      const [requestId, part] = JSON.parse(row['id'] as string) as [string, string]
      const hold = ledger.find(requestId, part)
      const price = ledger.price(row['price_version'] as string)
      if (!hold || row['channel'] === null || !price) continue
      const [channel, delivered] = [row['channel'] as string, row['delivered_units'] as number]
      // What the database has may be later: the log is freed when it has everything, and a process may end before.
      const { progress } = hold
      if (delivered < progress.delivered || (delivered === progress.delivered && channel === progress.channel)) continue
      hold.dispatched(channel, { model: row['model'] as string, price, costs: hold.sale.costs })
      hold.delivered(delivered)
    }
    let from = 0
    // The entries of one end follow each other, and the last of them is terminal.
    for (const [i, row] of rowsOf(entries, entryColumns).entries()) {
      if (row['class'] !== 'terminal') continue
      const to = (i + 1) * entryColumns.length
      const end = replayEnd(row, entries.slice(from, to), ledger)
      if (end) late.push(end)
      from = to
    }
  }
  return late
}

function replayEnd(row: Record<string, Value>, entries: readonly Value[], ledger: Book): Charge | undefined {
  const [requestId, part, charged] = [row['request_id'] as string, row['part'] as string, row['amount'] as bigint]
  const live = ledger.release(requestId, part)
  // It was sent before that start ended, or another node has ended it.
  if (!live) {
    const time = Number(row['ts_ms'])
    const places = placesIn(JSON.parse(row['scopes'] as string) as Record<string, Spans>, time)
    return { requestId, part, charged, time, entries, places, scopes: () => [] }
  }
  const { hold, places } = live
  ledger.queueEnd({
    requestId,
    part,
    places,
    held: hold.amount,
    charged,
    entries,
    scopes: () => [],
    time: hold.request.time,
    logged: true,
    done: () => {},
    failed: () => {}
  })
  return undefined
}

/** Who hears of requests that are ended for others, or are not charged for what they came to. */
export interface Heard {
  /** Gets the records of those that are ended for nodes that are gone. */
  readonly requests: Pick<RequestLog, 'append'>
  /** Is told of those of which something was ended in this way, or corrected, when that is in the journal. */
  readonly corrected?: ((requestId: string) => void) | undefined
  /** Is told of a charge that is not made, as the hold for it was never in the database. Nothing was shown of it. */
  readonly uncharged?:
    | ((requestId: string, charge: { readonly amount: bigint; readonly usage: Readonly<Usage> }) => void)
    | undefined
}

/** Ends holds whose process is gone, but for detached ones: those are their work's. */
export function endAll(holds: readonly Hold[], heard: Pick<Heard, 'requests'>, log: Logger): void {
  endLeft(
    holds.filter(({ detached }) => !detached),
    heard,
    log
  )
}

/** Ends holds that nobody goes on with by estimate. */
export function endLeft(holds: readonly Hold[], { requests }: Pick<Heard, 'requests'>, log: Logger): void {
  endAbandoned(holds, requests, log)
  if (holds.length > 0) log.warn('requests that were left open were ended by estimate', { requests: holds.length })
}

function rowsOf(values: readonly Value[], columns: readonly string[]): Record<string, Value>[] {
  return Array.from({ length: values.length / columns.length }, (_, row) =>
    Object.fromEntries(columns.map((name, i) => [name, values[row * columns.length + i]!]))
  )
}
