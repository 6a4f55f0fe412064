// The health of a store for operators: whether it admits requests, and counters of what it has written.
import type { Trouble } from '../files/troubles.ts'

/** The health of a store. Counters only grow. */
export interface StoreHealth {
  /**
   * False while new reservations are refused, because the commit log cannot be written, or too much of it is not in the
   * database yet.
   */
  healthy: boolean
  /** The error of the last failure. It stays when the failure is over. */
  lastError: string | undefined
  /** What is wrong now. New reservations are refused while one of these has `refuses`. */
  troubles: readonly Trouble[]
  /** How many writes to the commit log or the database failed. */
  failures: number
  /** How many writes to the commit log succeeded. */
  commits: number
  /** How many operations were committed, in all batches and in the last one. */
  operations: number
  lastBatch: number
  /** Seconds from handing a batch to the kernel until it was on disk: the sum, and those of the last batch. */
  commitSeconds: number
  lastCommitSeconds: number
  /** How many operations are not on disk yet, and about how many bytes they take. */
  queued: number
  queuedBytes: number
  /** How many segments were applied to the database, and the seconds that the writer thread spent on them. */
  applies: number
  applySeconds: number
  /** How many bytes of the commit log are not in the database yet. */
  unappliedBytes: number
  /** How many request records were dropped, because the disk failed or was too slow. */
  droppedRecords: number
  /** How many holds that a crash had left open were ended at the start. */
  recovered: number
}

/** The health of a store that was just opened. */
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
