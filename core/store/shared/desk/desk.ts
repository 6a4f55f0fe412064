// What a thread has of the store: the ledger and the request log of its seat.
import { Book } from '../../embedded/book/book.ts'
import type { KeptHold } from '../../embedded/book/book.ts'
import type { BalanceReader } from '../../embedded/book/purses.ts'
import { RecordLog } from '../../embedded/book/record-log.ts'
import type { Troubles } from '../../embedded/files/troubles.ts'
import { RowIds } from '../../embedded/rows/row-ids.ts'
import type { Snapshot } from '../../embedded/writer/snapshot.ts'
import type { RequestLog } from '../../requests.ts'
import { Arena } from '../arena/arena.ts'
import { WorkerCells } from '../arena/cells.ts'
import { RecordWriter } from '../records/record-writer.ts'
import { RingWriter } from '../records/ring.ts'
import { Seat } from '../arena/seat.ts'

/** What a thread is given with its seat. It can be sent to the thread. */
export interface DeskPlace {
  readonly arena: SharedArrayBuffer
  readonly seat: number
  readonly ring: SharedArrayBuffer
  readonly bell: SharedArrayBuffer
  /** Whether holds and their ends are acknowledged before they are on disk, as long as the disk keeps up. */
  readonly deferred: boolean
  /** Those that are in the journal, as JSON by version. */
  readonly prices: readonly (readonly [version: string, json: string])[]
}

/** What the supervisor has of the store when it opens it. A worker only reads older balances, where the store is. */
export interface Stored extends Pick<Snapshot, 'balances' | 'prices' | 'open' | 'parts' | 'lastHold'> {
  readonly kept: readonly KeptHold[]
  readonly reader: BalanceReader
  readonly troubles: Pick<Troubles, 'begin' | 'over'>
  /** Brings the database up to the journal. Resolves with false when that fails. */
  follow(): Promise<boolean>
}

/** The seat that the supervisor has, or a worker. */
export class Desk {
  readonly seat: Seat
  readonly ledger: Book
  readonly drafts: RecordWriter
  readonly cells: WorkerCells
  readonly requests: Pick<RequestLog, 'append'>
  /** How many records of requests were dropped, as more came than could be written. */
  dropped = 0

  /** `now`: Unix milliseconds. Without a reader it refuses requests that need balances of months ago. */
  constructor(
    { arena, seat, ring, bell, deferred, prices: known }: DeskPlace,
    now: () => number,
    stored: Partial<Stored> = {},
    own = new Seat(new Arena(arena), seat)
  ) {
    const { balances, prices, open, parts, lastHold, kept, reader, troubles, follow } = { ...nothing, ...stored }
    this.seat = own
    this.cells = new WorkerCells(own)
    this.drafts = new RecordWriter(new RingWriter(ring, bell), new RowIds(lastHold), now, follow)
    this.ledger = new Book(
      this.drafts,
      {
        since: this.cells.since,
        balances,
        prices: [...prices, ...known.map(([version, json]) => ({ version, json }))],
        open,
        parts
      },
      reader,
      troubles,
      now,
      kept,
      deferred,
      this.cells
    )
    const { ledger, drafts } = this
    drafts.onEnded = (ended) => ledger.forget(ended)
    drafts.onBalance = (batch) => ledger.balance(batch)
    this.requests = new RecordLog(
      drafts,
      (requestId) => ledger.owes(requestId),
      (dropped) => void (this.dropped += dropped ? 1 : 0)
    )
  }
}

const nothing: Stored = {
  balances: [],
  prices: [],
  open: [],
  parts: [],
  lastHold: 0,
  kept: [],
  reader: { ask: () => Promise.reject(new Error('this thread does not read the database')) },
  troubles: { begin() {}, over() {} },
  follow: () => Promise.resolve(true)
}
