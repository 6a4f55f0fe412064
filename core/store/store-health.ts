// What operators see of a store: whether it admits requests, and counters of what it has written.
import type { Trouble } from './troubles.ts'

/** What operators see of a store. Counters only grow. */
export interface StoreHealth {
  /**
   * False while new reservations are refused: the commit log cannot be written, or too much in it waits for the
   * database.
   */
  healthy: boolean
  /** Of the last failure; stays after it was healed. */
  lastError: string | undefined
  /** What ails it now; new reservations are refused while one of them says so. */
  troubles: readonly Trouble[]
  /** Writes to the commit log, or to the database, that failed. */
  failures: number
  /** Writes to the commit log. */
  commits: number
  /** Operations committed, and how many were in the last batch. */
  operations: number
  lastBatch: number
  /** From handing a batch to the kernel until it was on disk, in sum and the last one. */
  commitSeconds: number
  lastCommitSeconds: number
  /** Operations not on disk yet, and about how many bytes they hold. */
  queued: number
  queuedBytes: number
  /** Transactions of the database, and the time that the writer thread spent in them. */
  applies: number
  applySeconds: number
  /** Bytes on disk in the commit log that are not in the database yet. */
  unappliedBytes: number
  /** Request records that were not kept, because the disk failed or was too slow. */
  droppedRecords: number
  /** Holds that a crash had left open and that were ended at start. */
  recovered: number
}

/** Of a store that has just been opened. */
export function newHealth(): StoreHealth {
  return {
    healthy: true,
    lastError: undefined,
    troubles: [],
    failures: 0,
    commits: 0,
    operations: 0,
    lastBatch: 0,
    commitSeconds: 0,
    lastCommitSeconds: 0,
    queued: 0,
    queuedBytes: 0,
    applies: 0,
    applySeconds: 0,
    unappliedBytes: 0,
    droppedRecords: 0,
    recovered: 0
  }
}
