// Work that goes on after its request was answered: what an operation says of a kind of it, and who sees to it that it
// ends.
import type { Usage } from '../money/usage.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Work, WorkStatus } from '../store/works.ts'
import type { Exchange } from './exchange.ts'

/** What is asked of the upstream that is at work, below its channel's base address. */
export interface WorkQuestion {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
}

/** How far work is, by what its upstream says. */
export interface Progress {
  readonly status: WorkStatus
  /** From 0 to 100. */
  readonly progress?: number | undefined
  /** What the upstream counted, or what was asked for; it is charged, also where the work did not succeed. */
  readonly usage?: Readonly<Usage> | undefined
  readonly source?: 'upstream' | 'estimated' | undefined
  readonly error?: { readonly code: string; readonly message: string } | undefined
  /** Are added to those of the work. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
  /** Unix milliseconds: until when the upstream keeps what came of it. */
  readonly expires?: number | undefined
}

/** A kind of work at upstreams: pure. Its name is that of its work. */
export interface WorkKind {
  readonly name: string
  /** Bytes that an answer about it may have; absent: 256 KiB. */
  readonly largestAnswer?: number
  /** How the upstream is asked how far it is. */
  ask(work: Work): WorkQuestion
  /** What its answer with status 2xx means; undefined when it means nothing: it is asked again. */
  read(body: unknown, work: Work): Progress | undefined
  /** How it is told to stop, and to forget; absent where it cannot be. */
  cancel?(work: Work): WorkQuestion
  forget?(work: Work): WorkQuestion
  /** What it answers when it is told to stop is what it answers when it is asked. Otherwise that does not matter. */
  readonly cancelTells?: boolean
}

/** What is known of work when it begins. */
export interface NewWork {
  readonly kind: string
  readonly status: 'queued' | 'in_progress'
  /** Null: the exchange itself goes on, without its client. */
  readonly channel: Channel | null
  readonly upstreamId: string | null
  /** What clients know it by; default a new id that nobody can guess. */
  readonly id?: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  /** Milliseconds for which what comes of it is kept; absent: as long as the operator says of tasks. */
  readonly keep?: number
}

/**
 * Work whose exchange is still under way and may see its end. A release of the exchange calls one of the two; when the
 * exchange has begun something else since, neither does anything.
 */
export interface AttendedWork {
  readonly work: Work
  /** Resolves when the work and its hold are on disk: a start after a crash asks the upstream. */
  readonly kept: Promise<void>
  /**
   * The end has been seen: the exchange settles its hold and writes its record by itself, unless others were told what
   * it came to and this does not say it. Resolves when that the work has ended is on disk, in one batch with them.
   */
  end(progress: Progress): Promise<void>
  /**
   * The exchange has not seen the end: it is what others have seen of it, or from now on the upstream is asked, and the
   * hold and the record are kept until it has ended. `delivered`: what the client was shown, which is charged where the
   * upstream never says what it counted.
   */
  handOver(delivered: Readonly<Usage> | undefined): Promise<void>
}

/** Sees to it that work ends, and is settled once. */
export interface Background {
  /**
   * @throws GatewayError `overloaded` when too much is under way for more to begin, `rate_limit_concurrency` when too
   * much of the caller's tenant is
   */
  admit(exchange: Exchange): void
  /**
   * What an upstream has just made for an exchange goes by a name of its own: nobody is shown or charged another's, and
   * an upstream that gives a name twice gives nothing.
   * @throws GatewayError `upstream_bad_response` when something that is under way has this name
   */
  checkNew(exchange: Exchange, channel: Channel, upstreamId: string): void
  /**
   * The request of an exchange has begun work at an upstream, which goes on after its answer. Once per exchange: its
   * hold is kept until the work ends, and so is its record. Both are on disk with the work before the client sees the
   * end of its answer.
   */
  begin(exchange: Exchange, work: NewWork): Work
  /**
   * Likewise, of an exchange that may see the end of the work in its answer: until the exchange is over, nobody else
   * ends it. Once per attempt.
   */
  attend(exchange: Exchange, work: NewWork): AttendedWork
  /**
   * Asks the upstream, unless it has just been asked, and waits a while for what it says. Everybody who asks at one
   * time shares the question.
   */
  refresh(work: Work): Promise<Work>
  /**
   * What somebody else was answered when it asked the upstream how far it is. An end of work that is attended is noted
   * for its exchange. Resolves when what follows from it is on disk.
   */
  saw(work: Work, body: unknown): Promise<Work>
  /**
   * What an exchange that goes on without its client has answered, as it comes and from the beginning; undefined when
   * there is none (any more).
   */
  follow(work: Work): AsyncIterable<Buffer> | undefined
  /** Ends it, at the upstream too; what has ended stays as it is. Resolves when the end is on disk. */
  cancel(work: Work): Promise<Work>
  /**
   * Has its upstream stop and takes down what that says it came to, but does not end it: for work that its upstream
   * will not know any more.
   */
  stop(work: Work): Promise<void>
  /** The address of a path of the gateway, as the client of the exchange reaches it. */
  address(exchange: Exchange, path: string): string
  /** Ends it, and forgets it and what came of it. */
  remove(work: Work): Promise<void>
}
