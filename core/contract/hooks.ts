// The places where a plugin takes part in an exchange, and the replies it may give there.
import type { Attempt } from './attempt.ts'
import type { Candidates } from './candidates.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'
import type { RequestRecord } from '../store/requests.ts'
import type { Caller } from '../catalogue/caller.ts'
import type { BudgetStanding } from '../store/ledger.ts'
import type { LimitStanding } from '../store/limits.ts'
import type { Awaitable, Exchange, Outcome } from './exchange.ts'
import type { ChannelHealth } from './health.ts'
import type { AnySlot } from './slots.ts'
import type { Stage } from './stage.ts'
import type { Turn } from './turn.ts'

/**
 * An answer made by the gateway instead of an upstream, in the client's protocol. A reply with status 2xx passes the
 * stages of the plugins above the one that gave it, like an upstream's answer.
 */
export type Reply = WholeReply | StreamReply

export interface WholeReply {
  status: number
  headers?: readonly (readonly [string, string])[]
  /**
   * A string or bytes are sent as they are. Anything else is sent as JSON, with the content type in `headers` or else
   * `application/json`.
   */
  body: unknown
}

export interface StreamReply {
  /** The content type is `text/event-stream; charset=utf-8` unless the headers spell it otherwise. */
  headers?: readonly (readonly [string, string])[]
  /**
   * Server-sent events as they are on the wire, split anywhere; the end marker may be missing. It is read no faster
   * than the client reads, and closed (`return`) when the client leaves. For a client that did not ask for a stream,
   * the events are assembled into one answer.
   */
  stream: Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>
  /** Set when the stream follows another exchange, which has time limits of its own: this one may be silent as long. */
  follows?: true
}

/** The head of an answer with status 2xx. */
export interface UpstreamResponse {
  /** Undefined when a plugin or the gateway itself made the answer. */
  readonly attempt: Attempt | undefined
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** True when the body is a stream of events; otherwise one message is the whole body. */
  readonly streaming: boolean
  /** True when the answer is a session; the messages are then frames from both sides. */
  readonly frames: boolean
}

/**
 * The hooks of a plugin. All are optional, and an absent one costs nothing. `Needs`: the slots in the plugin's `needs`.
 */
export interface Hooks<Needs extends AnySlot = never> {
  /** Down the chain, once. Throw a {@link GatewayError} to refuse; return a reply to answer here. */
  onRequest?(exchange: Exchange<Needs>): Awaitable<Reply | void>
  /**
   * Down the chain, once, when the body has been read. Returns the public name of a model to use instead of `model`,
   * which the client or a plugin above chose. Runs before `auth` checks that the key may use the model, wherever the
   * plugin stands; `caller` is filled if `auth` was the first plugin to read.
   */
  onModel?(exchange: Exchange, model: string): string | void
  /** Down the chain, once, before the first channel is chosen: removes channels or sorts them. */
  onCandidates?(exchange: Exchange<Needs>, candidates: Candidates): Awaitable<void>
  /**
   * Once per attempt, in the one plugin of the chain that has this hook. Undefined ends the exchange with the last
   * failure.
   */
  selectChannel?(
    exchange: Exchange<Needs>,
    failures: readonly AttemptFailure[],
    candidates: Candidates
  ): Awaitable<Channel | undefined>
  /**
   * Down the chain, per attempt. Only the attempt may be changed: the next attempt starts from the client's request
   * again.
   */
  onAttempt?(exchange: Exchange<Needs>, attempt: Attempt): Awaitable<void>
  /**
   * Up the chain, when the head of an upstream's answer is accepted, or a plugin further down replied. When nothing is
   * returned, the body passes at no cost.
   */
  onResponse?(exchange: Exchange<Needs>, response: UpstreamResponse): Awaitable<Stage | void>
  /**
   * Down the chain, for each turn of a session: before the upstream is asked for it, or when the upstream has begun it
   * by itself.
   */
  onTurn?(exchange: Exchange<Needs>, turn: Turn): Awaitable<void>
  /**
   * Down the chain, twice a second while an answer or a session is open: throws a {@link GatewayError} to end it. Runs
   * in the generation in use, which may be newer than the exchange. Work in the background is not asked about.
   */
  whileOpen?(exchange: Exchange): void
  /**
   * Down the chain, exactly once per exchange, also for refused requests, after the releases have started. It only
   * reads, and must not throw.
   */
  onSettled?(exchange: Exchange, outcome: Outcome): void
  /**
   * Down the chain, when work that an exchange had begun has ended. The record is that of the exchange's request, with
   * the final cost, to be written now. Runs in the generation in use, which may be newer than the exchange. It only
   * reads, and must not throw.
   */
  onConcluded?(record: RequestRecord): void
  /**
   * The health of the channels of this generation, by channel name. Called when an operator asks; the first plugin of
   * the chain that has this hook is called.
   */
  reportHealth?(): Readonly<Record<string, ChannelHealth>>
  /**
   * The budgets and limits that apply to a caller and a model, and what is left of them now. Called when an operator
   * asks; every plugin of the chain that has this hook is called. Takes nothing.
   */
  reportStandings?(who: Caller, model: string): Awaitable<readonly Standing[]>
  /** Called when the generation is over and no exchange uses these hooks any more. */
  dispose?(): Awaitable<void>
}

/** A budget or a limit, and what is left of it. */
export type Standing = BudgetStanding | LimitStanding

/** A failed attempt, as `selectChannel` sees it. */
export interface AttemptFailure {
  attempt: Attempt
  error: GatewayError
}
