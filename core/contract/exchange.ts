// One request and everything done to answer it, as plugins see it.
import type { Attempt } from './attempt.ts'
import type { RequestBody } from '../bodies/body.ts'
import type { GatewayError } from '../errors.ts'
import type { Logger } from '../telling/log.ts'
import type { Operation } from './operation.ts'
import type { AnySlot, Slot, SlotValue } from './slots.ts'
import type { TextPart } from './stage.ts'

/**
 * A value, or a promise of it. Core awaits only what is a promise, so the synchronous path costs no turn of the loop.
 */
export type Awaitable<T> = T | Promise<T>

/** The client's request: read-only for plugins. What goes upstream is changed on the attempt. */
export interface ClientRequest {
  readonly method: string
  /** Decoded path without the query. */
  readonly path: string
  /** Raw query without the question mark; may hold `key=…`, so never log it. */
  readonly query: string
  /**
   * By lower-case name, those that were sent (by HTTP/2, with its own like `:path`). Holds the client's credential: log
   * fields by name, never the object.
   */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly operation: Operation
  /** What stands at the parameters of the operation's path, decoded. */
  readonly parameters: Readonly<Record<string, string>>
  readonly remoteAddress: string
}

/**
 * One client request and everything done to answer it. Lives until it is settled; nothing of it may be kept after.
 * `Needs` are the slots that are filled for sure.
 */
export interface Exchange<Needs extends AnySlot = never> {
  /** UUIDv7, made by the gateway; also `X-Request-Id`. */
  readonly id: string
  readonly request: ClientRequest
  /**
   * The request body; there once it has been read (before any `onRequest` unless the plugin says `reads: 'head'`). Its
   * bytes are the plugin's to look at until `onSettled` returns: then their memory is used again.
   */
  readonly body: RequestBody
  /**
   * Every text of the prompt in its order, as the client sent it; parsed when it is first asked for. Throws as {@link
   * Attempt.editText} does.
   */
  readonly prompt: readonly TextPart[]
  /** The public name of the model to be used; empty before the body was read, and for endpoints without one. */
  readonly model: string
  /** The name that the client asked for, and sees in the answer: another than `model` when a plugin renamed it. */
  readonly requestedModel: string
  /** The client asked for a stream of events; false before the body was read. */
  readonly streaming: boolean
  /** Unix milliseconds of arrival; windows and records use it. Durations come from `performance.now()`. */
  readonly receivedAt: number
  /** Aborted when the client leaves or a limit ends the exchange. */
  readonly signal: AbortSignal
  /** Lines carry the exchange's id and the plugin's name, whenever they are written. */
  readonly log: Logger
  /** The attempts so far, oldest first. */
  readonly attempts: readonly Attempt[]
  /**
   * Reads the whole body, once, within the limits; later calls return the same. Only `reads: 'head'` plugins need it.
   */
  read(): Awaitable<RequestBody>
  /**
   * The value of a slot in the plugin's `needs`, which the order of the chain has filled. Any other is a type error:
   * `find` it.
   */
  get<S extends Needs>(slot: S): SlotValue<S>
  find<T>(slot: Slot<T>): T | undefined
  /** Fills a slot. Written once; a second write throws. */
  set<T>(slot: Slot<T>, value: T): void
  /**
   * A header for the reply, whatever the reply turns out to be: success, error or stream. One that is set once an
   * attempt has begun is gone when another follows.
   * @throws TypeError for a name or value that cannot be sent, such as a line break
   */
  setHeader(name: string, value: string | number): void
  /** A header as it was set last for the reply, whatever the case of its name. */
  replyHeader(name: string): string | undefined
  /**
   * Keeps the first byte back until the promise resolves; rejecting it fails the exchange. Dispatch does not wait.
   * `durable` is called once: for a stream now, for another answer when it is there, after the releases if it is sent
   * as a whole.
   */
  showAfter(durable: () => Promise<void>): void
  /**
   * Registers what gives back something just taken. Releases run once, newest first, however the exchange ends, each
   * started without waiting for the one before; the client sees the end of its answer after all of them resolved. A
   * {@link GatewayError} thrown by one is the end of the answer; anything else is logged, and the answer stands.
   */
  defer(release: (outcome: Outcome) => Awaitable<void>): void
}

/** How an exchange ended. */
export interface Outcome {
  /**
   * `completed`: the upstream's answer ended as its protocol demands (or the gateway answered by itself).
   * `rejected`: refused before any attempt. `failed`: no complete answer. `aborted`: the client left.
   */
  kind: 'completed' | 'rejected' | 'failed' | 'aborted'
  /** The status the client saw; 499 when it had left before one was sent. */
  status: number
  error?: GatewayError | undefined
  /** Bytes of the body released to the client. */
  bytes: number
  /** Milliseconds from arrival to the first body byte released, undefined when none was. */
  firstByteMs?: number | undefined
  durationMs: number
}
