// The places where a plugin takes part in an exchange, and the replies it may give there.
import type { Attempt } from './attempt.ts'
import type { Candidates } from './candidates.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'
import type { RequestRecord } from '../store/requests.ts'
import type { Awaitable, Exchange, Outcome } from './exchange.ts'
import type { ChannelHealth } from './health.ts'
import type { AnySlot } from './slots.ts'
import type { Stage } from './stage.ts'
import type { Turn } from './turn.ts'

/**
 * An answer made by the gateway instead of an upstream, in the client's protocol. One with status 2xx goes up the chain
 * as an upstream's does: the stages of the plugins above the one that gave it see it.
 */
export type Reply = WholeReply | StreamReply

export interface WholeReply {
  status: number
  headers?: readonly (readonly [string, string])[]
  /**
   * A string or bytes go out as they are; anything else as JSON, of the type that the headers say or else
   * `application/json`.
   */
  body: unknown
}

export interface StreamReply {
  /** The type is `text/event-stream; charset=utf-8` unless they give another spelling of it. */
  headers?: readonly (readonly [string, string])[]
  /**
   * Server-sent events as they are on the wire, in any pieces; the end marker may be missing. Read no faster than the
   * client reads, and closed (`return`) when that leaves. For a client that wants a whole answer they are put together.
   */
  stream: Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>
  /** It follows something that has time limits of its own, and may be silent for as long as that. */
  follows?: true
}

/** The head of an answer that was accepted (status 2xx). */
export interface UpstreamResponse {
  /** Undefined when the answer is a plugin's reply, or one of the gateway itself. */
  readonly attempt: Attempt | undefined
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The body is a stream of events; otherwise one message is the whole body. */
  readonly streaming: boolean
  /** It is a session instead: messages are frames of both sides. */
  readonly frames: boolean
}

/**
 * The places where a plugin takes part; all optional, and an absent one costs nothing. `Needs` are the plugin's own.
 */
export interface Hooks<Needs extends AnySlot = never> {
  /** Down the chain, once. Throw a {@link GatewayError} to refuse; return a reply to answer here. */
  onRequest?(exchange: Exchange<Needs>): Awaitable<Reply | void>
  /**
   * Down the chain, once, when the body has been read: returns the public name of the model to be used in place of this
   * one, which the client or a plugin above has asked for. Runs before `auth` says whether the key may use the model,
   * wherever in the chain the plugin stands; `caller` is filled where `auth` was the first to read.
   */
  onModel?(exchange: Exchange, model: string): string | void
  /** Down the chain, once, before the first channel is chosen: leaves channels out, or puts them in order. */
  onCandidates?(exchange: Exchange<Needs>, candidates: Candidates): Awaitable<void>
  /** Per attempt, from exactly one plugin of the chain. Undefined ends the trying: the last failure is the answer. */
  selectChannel?(
    exchange: Exchange<Needs>,
    failures: readonly AttemptFailure[],
    candidates: Candidates
  ): Awaitable<Channel | undefined>
  /** Down the chain, per attempt. Only the attempt may change: the client's request is read again by the next one. */
  onAttempt?(exchange: Exchange<Needs>, attempt: Attempt): Awaitable<void>
  /**
   * Up the chain, when an upstream's head is accepted, or a plugin further down replied. Nothing returned: no cost for
   * the body.
   */
  onResponse?(exchange: Exchange<Needs>, response: UpstreamResponse): Awaitable<Stage | void>
  /**
   * Down the chain, for each response of a session, before it is asked of the upstream or when that has begun it by
   * itself.
   */
  onTurn?(exchange: Exchange<Needs>, turn: Turn): Awaitable<void>
  /**
   * Down the chain, once a second while a session is open: throws a {@link GatewayError} to end it. Asked of the
   * configuration in use, which may be newer than the exchange.
   */
  whileOpen?(exchange: Exchange): void
  /**
   * Down the chain, always and once, after the releases have started; for refused requests too. Reads, never throws.
   */
  onSettled?(exchange: Exchange, outcome: Outcome): void
  /**
   * Down the chain: work that an exchange has begun has ended. The record is that of its request, with what it cost in
   * the end, to be written now. Runs in the present generation, which may be another than the exchange's. Reads, never
   * throws.
   */
  onConcluded?(record: RequestRecord): void
  /**
   * How the channels of this generation are doing, by their names. Asked when an operator looks; the first plugin of
   * the chain that has an answer is asked.
   */
  reportHealth?(): Readonly<Record<string, ChannelHealth>>
  /** The generation is over: no exchange uses these hooks any more. */
  dispose?(): Awaitable<void>
}

/** An attempt that did not lead to an answer, as the next selection sees it. */
export interface AttemptFailure {
  attempt: Attempt
  error: GatewayError
}
