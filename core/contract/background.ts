// Work that goes on at an upstream after its request was answered, such as a video: what an operation defines for each
// kind of work, and the service that sees each piece of work through to its end.
import type { Awaitable } from '../awaitable.ts'
import type { Usage } from '../money/usage.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Work, WorkStatus } from '../store/works.ts'
import type { Exchange } from './exchange.ts'

/** A request to the upstream that does the work. The path is below the base address of its channel. */
export interface WorkQuestion {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
}

/** How far the work is, according to its upstream. */
export interface Progress {
  readonly status: WorkStatus
  /** From 0 to 100. */
  readonly progress?: number | undefined
  /**
   * What the upstream counted or, without a count, what the request asked for. It is charged even when the work failed.
   */
  readonly usage?: Readonly<Usage> | undefined
  readonly source?: 'upstream' | 'estimated' | undefined
  readonly error?: { readonly code: string; readonly message: string } | undefined
  /** Members to add to the details of the work. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
  /** The time until which the upstream keeps the result, in Unix milliseconds. */
  readonly expires?: number | undefined
}

/** One kind of work, such as videos. Its functions are pure, and its name is the `kind` of each such work. */
export interface WorkKind {
  readonly name: string
  /** The most bytes that the upstream's answer about the work may have; 256 KiB when absent. */
  readonly largestAnswer?: number
  /** The request that asks the upstream how far the work is. */
  ask(work: Work): WorkQuestion
  /**
   * Reads an answer with status 2xx to `ask`. Undefined when the answer says nothing usable; the upstream is then asked
   * again.
   */
  read(body: unknown, work: Work): Progress | undefined
  /**
   * The requests that tell the upstream to stop the work, and to delete it. Absent when the upstream has no such
   * request.
   */
  cancel?(work: Work): WorkQuestion
  forget?(work: Work): WorkQuestion
  /**
   * True when the answer to `cancel` has the form of an answer to `ask` and is read like one. Otherwise it is ignored.
   */
  readonly cancelTells?: boolean
}

/** The facts about work when it begins. */
export interface NewWork {
  readonly kind: string
  readonly status: 'queued' | 'in_progress'
  /** The channel at work. Null when the exchange itself goes on without its client. */
  readonly channel: Channel | null
  readonly upstreamId: string | null
  /** The id that clients use. By default, a new id that nobody can guess. */
  readonly id?: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  /** Milliseconds for which the result is kept; when absent, the time that the operator configured for tasks. */
  readonly keep?: number
}

/**
 * Work whose exchange is still under way and may see the end of the work. A release of the exchange calls `end` or
 * `handOver`. Both do nothing when the exchange has begun other work since.
 */
export interface AttendedWork {
  readonly work: Work
  /**
   * Resolves when the work and its hold are on disk. After a crash, the next start of the gateway asks the upstream
   * about the work.
   */
  readonly kept: Promise<void>
  /**
   * Says that the exchange saw the end of the work. The exchange then settles its hold and writes its record by itself,
   * unless other clients were told a result that `progress` lacks. Resolves when the end of the work is on disk, in one
   * batch with the settlement and the record.
   */
  end(progress: Progress): Promise<void>
  /**
   * Says that the exchange did not see the end. If another client saw the end, that one counts; otherwise the upstream
   * is asked from now on, and the hold and the record are kept until the work has ended. `delivered`: the usage of what
   * the client was shown, which is charged when the upstream never reports a count.
   */
  handOver(delivered: Readonly<Usage> | undefined): Promise<void>
}

/** Sees that all work ends, and that each piece of work is settled exactly once. */
export interface Background {
  /**
   * Checks that an exchange may begin work.
   * @throws GatewayError `overloaded` when too much work is under way, `rate_limit_concurrency` when the tenant of the
   * caller has too much work under way
   */
  admit(exchange: Exchange): Awaitable<void>
  /**
   * Checks that the id that an upstream gave to new work is not in use already. Otherwise a client could be shown, or
   * charged for, another client's work.
   * @throws GatewayError `upstream_bad_response` when work under way at this channel has the id
   */
  checkNew(exchange: Exchange, channel: Channel, upstreamId: string): void
  /**
   * Notes that the request of an exchange has begun work at an upstream, which goes on after the answer. Called once
   * per exchange at most. The hold and the record of the exchange are kept until the work ends; both are on disk, with
   * the work, before the client sees the end of its answer.
   */
  begin(exchange: Exchange, work: NewWork): Work
  /**
   * As {@link begin}, for an exchange that may see the end of the work in its own answer. Until the exchange is over,
   * nothing else ends the work. Called once per attempt at most.
   */
  attend(exchange: Exchange, work: NewWork): AttendedWork
  /**
   * Asks the upstream how far the work is, unless it was asked a moment ago, and waits a limited time for the answer.
   * Callers at the same time share one request.
   */
  refresh(work: Work): Promise<Work>
  /**
   * Takes the answer that an upstream gave to another client's request about the work. When an exchange attends the
   * work, an end is noted for that exchange. Resolves when the consequences are on disk.
   */
  saw(work: Work, body: unknown): Promise<Work>
  /**
   * The answer of an exchange that goes on without its client, in any thread: all of it from the beginning, then the
   * rest as it comes. There may be an empty piece where nothing comes. Undefined when there is no such exchange, or no
   * longer. It throws when the thread has ended before its answer did, as far as it could be told.
   */
  follow(work: Work): Promise<AsyncIterable<Buffer> | undefined>
  /** Ends the work, at the upstream too. Work that has ended stays as it is. Resolves when the end is on disk. */
  cancel(work: Work): Promise<Work>
  /**
   * Tells the upstream to stop and notes the usage that it reports, but does not end the work. For work that the
   * upstream is about to forget.
   */
  stop(work: Work): Promise<void>
  /** The full address of a path of the gateway, as the client of the exchange reaches it. */
  address(exchange: Exchange, path: string): string
  /** Ends the work, and deletes it with its result. */
  remove(work: Work): Promise<void>
}
