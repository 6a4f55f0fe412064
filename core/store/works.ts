// The interface of work: what goes on after its request was answered, such as a task, with its owner and its result.
import type { Awaitable } from '../awaitable.ts'
import type { Usage } from '../money/usage.ts'
import type { AttemptCost } from './ledger.ts'
import type { RequestRecord } from './requests.ts'
import type { Owner } from './owner.ts'

/** The state of work. All but the first two are ends. */
export type WorkStatus = 'queued' | 'in_progress' | 'succeeded' | 'failed' | 'cancelled' | 'expired'

/** An attempt's cost in a form that JSON can have: the amount is text, in nano-dollars. */
export type KeptCost = Omit<AttemptCost, 'amount'> & { readonly amount: string }

/** An end of work that was seen by code which may not end the work itself. */
export interface SeenEnd {
  readonly status: WorkStatus
  /** The usage that the upstream counted. */
  readonly usage?: Readonly<Usage> | undefined
  readonly source?: 'upstream' | 'estimated' | undefined
  readonly error?: { readonly code: string; readonly message: string } | undefined
}

/** The state of one piece of work. It is never changed but replaced by a newer one. Times are in Unix milliseconds. */
export interface Work extends Owner {
  /** The id that clients use. It is found only together with its owner. */
  readonly id: string
  /** The bytes of its result, for kinds of work whose results are counted. */
  readonly bytes?: number
  /** The kind decides how the work is requested and shown. */
  readonly kind: string
  /** The id of the request that began it, by which its hold and its record are found. */
  readonly requestId: string
  /** The public name of the model. */
  readonly model: string
  /** The channel that does the work; null while the gateway does it itself. `upstreamId` is the upstream's id of it. */
  readonly channel: string | null
  readonly upstreamId: string | null
  /** The fingerprint of the account at the upstream; empty while the gateway does it. */
  readonly account: string
  readonly status: WorkStatus
  /** From 0 to 100. Only work that succeeded has 100. */
  readonly progress: number
  readonly created: number
  readonly updated: number
  readonly ended: number | null
  /** When the gateway gives the work up. */
  readonly deadline: number
  /** When ended work is deleted; null before it ended. */
  readonly expires: number | null
  /** Why it failed; null when it did not. */
  readonly error: { readonly code: string; readonly message: string } | null
  /** The usage that was charged; null when nothing was. */
  readonly usage: Readonly<Usage> | null
  /** Data of its kind: small and plain. */
  readonly details: Readonly<Record<string, unknown>>
  /** The record of its request, to be written when the work has ended. */
  readonly record: RequestRecord | null
  /** The costs of attempts that failed before the work began, to be written when it has ended. */
  readonly costs?: readonly KeptCost[] | null
  /**
   * Its end, if it was seen while the exchange that began the work was still under way. That exchange ends the work;
   * after a crash, the next start does.
   */
  readonly seen?: SeenEnd
  /**
   * The usage that its client was shown, as far as it can be counted. It is charged when the upstream never reports
   * one.
   */
  readonly delivered?: Readonly<Usage> | undefined
  /** The estimated input. With `due` it is charged when the work is cancelled and nobody reports its usage. */
  readonly prompt?: { readonly usage: Readonly<Usage>; readonly due: boolean } | undefined
  /** How long its result is kept, in milliseconds; absent: as long as the configuration says for tasks. */
  readonly keep?: number
}

/** A query for work of one owner. */
export interface WorkQuery extends Owner {
  readonly kind: string
  /** The last id of the page before. */
  readonly after: string | undefined
  readonly limit: number
  readonly newestFirst: boolean
  /** Only what this request began, between two times in Unix milliseconds. */
  readonly of?: { readonly requestId: string; readonly from: number; readonly to: number }
}

/** Whether the work has not ended. */
export function isOpen({ status }: Pick<Work, 'status'>): boolean {
  return status === 'queued' || status === 'in_progress'
}

/** The bytes that the results of ended work take. */
export interface ResultRoom {
  readonly total: number
  /** The tenant whose results take most; undefined when there are none. */
  readonly largest: string | undefined
  /** The bytes of one tenant. */
  of(tenant: string): number
}

/**
 * What whoever goes on with open work can be asked for: to ask its upstream, to call it off, to have it stop, or to
 * take down what its upstream said of it to somebody else.
 */
export type Errand = 'refresh' | 'cancel' | 'stop' | 'saw'

/** Some of what an exchange without a client has answered. */
export interface Told {
  /** None when nothing came for some time. */
  readonly pieces: readonly Uint8Array[]
  /** Whether these are the last. */
  readonly over: boolean
  /** The thread that has said so, which is asked for more. */
  readonly seat?: number
}

/** How much work may be open: of all, and of one tenant. */
export interface WorkBounds {
  readonly open: number
  readonly of_tenant: number
}

/** The places of all work of a store. */
export interface WorkPlaces {
  /**
   * Takes one for what the request `id` is about to begin, which it holds until it is left. Returns which bound refuses
   * it; undefined when it has one.
   */
  take(id: string, tenant: string, bounds: WorkBounds): Awaitable<keyof WorkBounds | undefined>
  /** The work is among the works by now, or was not begun. Leaving it again does nothing. */
  leave(id: string): void
}

/** All work of a store. Open work is in memory, so the code that begins work must bound how much there is. */
export interface Works {
  /** The open work, oldest first. */
  open(): readonly Work[]
  /** How much work is open. */
  readonly running: number
  /** How much work of a tenant is open. */
  runningOf(tenant: string): number
  /** Places of work that is about to begin. */
  readonly places: WorkPlaces
  /** The state of open work as it was put last, even if that is not on disk yet; undefined when the work has ended. */
  current(owner: Owner, id: string): Work | undefined
  /** The same, for any owner, by the account at the upstream and the upstream's id. */
  at(account: string, upstreamId: string): Work | undefined
  /**
   * Asks the process that goes on with open work, where several share the store. Undefined when that is this one, or
   * the work has ended. Resolves with the work as that process has it, or with undefined when it does not answer for
   * some seconds; never rejects. `said`: the body that was seen.
   */
  errand(work: Work, what: Errand, said?: unknown): Promise<Work | undefined> | undefined
  /**
   * What another thread has answered in the background for open work, from its piece `from` on, as soon as there is
   * more. `seat`: the one that was asked before. Undefined, at once or later, when there is nobody to ask; never
   * rejects.
   */
  told(work: Work, from: number, seat?: number): Promise<Told | undefined> | undefined
  /**
   * Saves work, in the place of the state before. It is in one batch with everything else queued in the same tick of
   * the event loop, or, where that is not so, written when `after` is over. Resolves when it is on disk; until then
   * {@link Works.find} finds the state before.
   */
  put(work: Work, after?: Promise<void>): Promise<void>
  /** Replaces the state without saving it, for progress, which no start needs. */
  note(work: Work): void
  /** Finds work; undefined when the owner has none of this id, or it has expired. */
  find(owner: Owner, id: string): Promise<Work | undefined>
  list(query: WorkQuery): Promise<{ page: readonly Work[]; more: boolean }>
  /** Deletes work and its result. Resolves when both are gone from the disk. */
  forget(work: Work): Promise<void>
  /** Some of a tenant's ended work whose result is counted, the oldest first. */
  oldest(tenant: string, limit: number): Promise<readonly Work[]>
  /** How much room results take. They count as soon as work is put. */
  readonly room: ResultRoom
  /**
   * Resolves with true when the database has everything that was put or deleted until now; with false when the disk
   * fails.
   */
  flushed(): Promise<boolean>
  /** Some of the expired work. */
  expired(limit: number): Promise<readonly Work[]>
  /**
   * Deletes results that were there at the start and belong to no work, because a process was killed between writing
   * the two. Resolves with their number.
   */
  sweep(): Promise<number>
  /** Keeps the result of work as a file. It must resolve before the work is put as succeeded. */
  keepResult(work: Work, bytes: Buffer): Promise<void>
  result(work: Work): Promise<Buffer | undefined>
}
