// What the supervisor does when the thread of a worker has ended: its seat is left, and its open holds end.
import { endAbandoned } from '../embedded/abandoned.ts'
import { rowOf } from '../embedded/recovery/folded-leftovers.ts'
import type { Book } from '../embedded/book/book.ts'
import type { Hold } from '../embedded/balance/hold.ts'
import type { Logger } from '../../telling/log.ts'
import type { RequestLog } from '../requests.ts'
import type { RecordReader } from './records/record-reader.ts'
import type { RecordWriter } from './records/record-writer.ts'
import type { SeatRecords } from './records/seat-records.ts'
import type { Seats } from './arena/seats.ts'

/** What the supervisor has. Its own ledger writes records too, as that of a worker does. */
export interface Supervision {
  readonly seats: Seats
  readonly reader: RecordReader
  /** What its own records have said. */
  readonly records: SeatRecords
  readonly ledger: Book
  /** Where the ledger puts its operations, and `requests` the records of requests: each goes with its end. */
  readonly drafts: RecordWriter
  readonly requests: Pick<RequestLog, 'append'>
  readonly log: Logger
}

/**
 * Brings home what a worker has left whose thread has ended. What it published stays; its open holds end by estimate,
 * as after a crash, but for those kept for work, which are the supervisor's from now on. Returns how many it ended.
 * Resolves when the seat can be given again and all ends are queued; while the disk fails, that is when it has healed.
 */
export async function bringHome(
  seat: number,
  { seats, reader, records, ledger, drafts, requests, log }: Supervision
): Promise<number> {
  const gone = reader.remove(seat)
  await seats.leave(seat, () => gone.published())
  // Only then all rows have the ids that they have in the journal.
  await reader.kept
  const left: Hold[] = []
  for (const hold of gone.open) {
    const own = { ...hold, row: [drafts.rowIds.fresh(), ...hold.row.slice(1)] }
    const taken = await seats.patiently(() => {
      const row = rowOf(own)
      return ledger.takeOver(row, reader.prices, gone.open.parts.get(row['request_id'] as string))
    })
    records.adopt(own, gone.idOf(hold)!)
    if (!taken.detached) left.push(taken)
  }
  endAbandoned(left, requests, log)
  if (left.length > 0)
    log.warn('a worker that has gone left requests open: they were ended by estimate', { requests: left.length })
  return left.length
}
