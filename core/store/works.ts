// Work that goes on after its request was answered, and what came of it: what is kept of it, and whose it is. The
// interface.
import type { Usage } from '../money/usage.ts'
import type { AttemptCost } from './ledger.ts'
import type { RequestRecord } from './requests.ts'
import type { Room } from './room.ts'
import type { Owner } from './owner.ts'

/** Where work is. All but the first two are its end. */
export type WorkStatus = 'queued' | 'in_progress' | 'succeeded' | 'failed' | 'cancelled' | 'expired'

/** An attempt's cost as JSON can have it: nano-dollars in digits. */
export type KeptCost = Omit<AttemptCost, 'amount'> & { readonly amount: string }

/** An end of work that somebody has seen who does not end it. */
export interface SeenEnd {
  readonly status: WorkStatus
  /** What the upstream counted. */
  readonly usage?: Readonly<Usage> | undefined
  readonly source?: 'upstream' | 'estimated' | undefined
  readonly error?: { readonly code: string; readonly message: string } | undefined
}

/** One piece of work. Never changed: a newer one takes its place. Times are Unix milliseconds. */
export interface Work extends Owner {
  /** What clients know it by; found together with its owner only. */
  readonly id: string
  /** Of its result, where the room that it takes is counted. */
  readonly bytes?: number
  /** Says how it is asked for and shown. */
  readonly kind: string
  /** Of the request that began it: its hold and its record are found by it. */
  readonly requestId: string
  /** The public name. */
  readonly model: string
  /** Who is at work, and what it calls it there; null while the gateway does it by itself. */
  readonly channel: string | null
  readonly upstreamId: string | null
  /** The fingerprint of its account there; empty while the gateway does it. */
  readonly account: string
  readonly status: WorkStatus
  /** From 0 to 100, which only what succeeded has. */
  readonly progress: number
  readonly created: number
  readonly updated: number
  readonly ended: number | null
  /** When it is given up. */
  readonly deadline: number
  /** When what ended is forgotten; null before. */
  readonly expires: number | null
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null
  /** What was charged for. */
  readonly usage: Readonly<Usage> | null
  /** What its kind wants to know of it: plain data, small. */
  readonly details: Readonly<Record<string, unknown>>
  /** Of its request, to be written when it has ended. */
  readonly record: RequestRecord | null
  /** Of attempts that failed before it began, likewise. */
  readonly costs?: readonly KeptCost[] | null
  /**
   * Its end, seen while the exchange that began it was under way, which has to end it; a start after a crash does in
   * its place.
   */
  readonly seen?: SeenEnd
  /**
   * What its client was shown of it, as far as that can be counted: charged where its upstream never says what it was.
   */
  readonly delivered?: Readonly<Usage> | undefined
  /** What went in, by estimate; `due`: charged where it is called off and nobody says what it came to. */
  readonly prompt?: { readonly usage: Readonly<Usage>; readonly due: boolean } | undefined
  /** Milliseconds for which what came of it is kept; absent: as long as the operator says of tasks. */
  readonly keep?: number
}

/** Which of an owner's work is listed. */
export interface WorkQuery extends Owner {
  readonly kind: string
  /** The id that the page follows. */
  readonly after: string | undefined
  readonly limit: number
  readonly newestFirst: boolean
}

/** Whether it has not ended. */
export function isOpen({ status }: Pick<Work, 'status'>): boolean {
  return status === 'queued' || status === 'in_progress'
}

/** All work. What is open is in memory, so it is to be bounded by whoever lets it begin. */
export interface Works {
  /** What has not ended, oldest first. */
  open(): readonly Work[]
  /** How much has not ended. */
  readonly running: number
  /** And of a tenant's. */
  runningOf(tenant: string): number
  /** As it was put last, if it has not ended, whatever is on disk. */
  current(owner: Owner, id: string): Work | undefined
  /** Likewise, by what it is called at an account of an upstream, whoever's it is. */
  at(account: string, upstreamId: string): Work | undefined
  /**
   * Puts it in the place of what has its id; resolves when it is on disk, and is in one batch with what else is queued
   * in the same turn of the loop. {@link Works.find} finds what was there before until then.
   */
  put(work: Work): Promise<void>
  /** Puts it without writing it down: progress, which no start needs. */
  note(work: Work): void
  /** What the owner may see of it; undefined when there is none, it is another's, or it has expired. */
  find(owner: Owner, id: string): Promise<Work | undefined>
  list(query: WorkQuery): Promise<{ page: readonly Work[]; more: boolean }>
  /** Resolves when it is gone from the disk, with its result. */
  forget(work: Work): Promise<void>
  /** Of what has ended and takes room, some of a tenant's, the oldest first. */
  oldest(tenant: string, limit: number): Promise<readonly Work[]>
  /** The room that is taken; what is put counts at once. */
  readonly room: Pick<Room, 'of' | 'total' | 'largest'>
  /** Resolves with true when the database has what was put or forgotten until now, and with false when that fails. */
  flushed(): Promise<boolean>
  /** Some of what has expired. */
  expired(limit: number): Promise<readonly Work[]>
  /**
   * Removes the results that were there at the start and are of no work: of a process that was killed between the two.
   * Resolves with how many.
   */
  sweep(): Promise<number>
  /** Keeps what came of it, as a file: to be done before it is said to have succeeded. */
  keepResult(work: Work, bytes: Buffer): Promise<void>
  result(work: Work): Promise<Buffer | undefined>
}
