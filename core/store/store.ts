// The interface of a store as a whole: what it keeps, how it is, and its end.
import type { Answers } from './answers.ts'
import type { Documents } from './documents.ts'
import type { Ledger } from './ledger.ts'
import type { RequestBook } from './requests.ts'
import type { Routes } from './routes.ts'
import type { SpendPage, SpendQuery } from './spend.ts'
import type { TrafficPoint, TrafficQuery } from './traffic.ts'
import type { Works } from './works.ts'

/** An open store. */
export interface Store {
  readonly documents: Documents
  readonly ledger: Ledger
  readonly requests: RequestBook
  readonly answers: Answers
  readonly routes: Routes
  readonly works: Works
  /** Adds up what was charged until now, unless the disk fails: then it may be older. */
  spend(query: SpendQuery): Promise<SpendPage>
  /** Adds up the requests that ended until now by when they arrived, unless the disk fails: then it may be older. */
  traffic(query: TrafficQuery): Promise<TrafficPoint[]>
  /**
   * Resolves when everything queued until now is in the database, or the disk fails. Without it the database follows
   * within about a second, and within about five where the journal is in segments.
   */
  flush(): Promise<void>
  /** The current health. It is cheap enough for every scrape of the metrics. */
  health(): StoreHealth
  /** The gateways that share the store, this one too, as last seen; none where it has the store alone. */
  nodes(): readonly StoreNode[]
  /**
   * Commits everything and releases the store. Nothing may be called after it. Open reservations are ended at the next
   * start, or by another gateway that shares the store.
   */
  close(): Promise<void>
}

/** A gateway that shares a store with others. */
export interface StoreNode {
  readonly name: string
  /** The version of its program. */
  readonly version: string
  /** The hash of the configuration that it uses; empty before that is known. */
  readonly config: string
  /** When it began, in Unix milliseconds. */
  readonly since: number
  /** Whether it is the one that is asked. */
  readonly own: boolean
  /** How many workers of it share the store; 0 for one of a single thread. */
  readonly workers: number
}

/** A trouble that a store has now. */
export interface StoreTrouble {
  /** Its name, the same each time. */
  ailment: string
  /** What it means, as a phrase without paths. */
  text: string
  /** Whether new requests are refused while it lasts, or should better go to another gateway. */
  refuses: boolean
  /** The cause in a few words without paths, and what to do about it. */
  cause: string
  remedy: string
  /** The last error message of the system. */
  error: string
  /** Unix milliseconds. */
  since: number
}

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
  troubles: readonly StoreTrouble[]
  /** How many writes to the commit log or the database failed. */
  failures: number
  /** How many writes to the commit log succeeded, or how many batches of money in a shared store. */
  commits: number
  /** How many operations were committed, in all batches and in the last one. */
  operations: number
  lastBatch: number
  /** Seconds from handing a batch to the kernel or PostgreSQL until it was on disk: the sum, and of the last batch. */
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
