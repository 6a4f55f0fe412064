// What a start reads into memory, for the main thread.
import type { Row } from '../files/sqlite.ts'
import type { SegmentHead } from '../log/segment.ts'
import type { Recovered } from '../recovery/recovery.ts'
import type { Continuation } from '../segments/segment-log.ts'

/** What is read into memory when a store opens. Rows are as stored, with integers as bigint. */
export interface Snapshot {
  /** Where the log goes on: the head that both files of the commit log were made with, or a place in the journal. */
  log: SegmentHead | Continuation
  batch: number
  /** The latest `written` of the request log, or the time of the start if that is later. Unix milliseconds. */
  written: number
  recovered: Recovered
  /** The highest id of a hold that is still open. */
  lastHold: number
  /** From when on the balances of all windows are included: the beginning of a month, in Unix milliseconds. */
  since: number
  balances: Row[]
  prices: Row[]
  documents: Row[]
  /** The open holds: those that were detached, and those that the process before goes on with. */
  open: Row[]
  /** What was charged for parts of requests with an open hold: `request_id`, `amount`, `usage_json` of the journal. */
  parts: Row[]
  /** The open work, oldest first. */
  works: Row[]
  /** The bytes of counted results, by tenant. */
  room: Row[]
}
