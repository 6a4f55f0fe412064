// One request and everything done to answer it, as plugins see it.
import type { Attempt } from './attempt.ts'
import type { RequestBody } from '../bodies/body.ts'
import type { Candidates } from './candidates.ts'
import type { Sponsor } from '../clients/sponsor.ts'
import type { GatewayError } from '../errors.ts'
import type { Awaitable } from '../awaitable.ts'
import type { Logger } from '../telling/log.ts'
import type { Operation } from './operation.ts'
import type { Rehearsal } from './rehearsal.ts'
import type { AnySlot, Slot, SlotValue } from './slots.ts'
import type { TextPart } from './stage.ts'
import type { Times } from './times.ts'

export type { Awaitable }

/** The client's request. Plugins only read it; to change what goes upstream, they change the attempt. */
export interface ClientRequest {
  readonly method: string
  /** Decoded path without the query. */
  readonly path: string
  /** Raw query without the question mark; may hold `key=…`, so never log it. */
  readonly query: string
  /**
   * By lower-case name, the headers that the client sent (over HTTP/2 with pseudo-headers such as `:path`). Holds the
   * client's credential: log fields by name, never the object.
   */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly operation: Operation
  /** The values of the parameters in the operation's path, decoded. */
  readonly parameters: Readonly<Record<string, string>>
  readonly remoteAddress: string
}

/**
 * One client request and everything done to answer it. It lives until it is settled; keep no reference to it after
 * that. `Needs`: the slots that are certain to be filled.
 */
export interface Exchange<Needs extends AnySlot = never> {
  /** UUIDv7, made by the gateway; also `X-Request-Id`. */
  readonly id: string
  readonly request: ClientRequest
  /**
   * The request body, once it has been read: before any `onRequest`, unless the plugin says `reads: 'head'`. A plugin
   * may read its bytes until `onSettled` returns; then their memory is used for other requests.
   */
  readonly body: RequestBody
  /**
   * Every text of the prompt in order, as the client sent it; parsed on first use. Throws as {@link Attempt.editText}
   * does.
   */
  readonly prompt: readonly TextPart[]
  /**
   * The public name of the model to use, for which the caller has its permission; the one that is asked in its place
   * stands in each attempt. Empty before the body was read, and for endpoints without a model.
   */
  readonly model: string
  /**
   * The model that the client asked for, which it also sees in the answer. Differs from `model` when a plugin renamed
   * it.
   */
  readonly requestedModel: string
  /** The client asked for a stream of events; false before the body was read. */
  readonly streaming: boolean
  /** The time of arrival in Unix milliseconds, for windows and records. Measure durations with `performance.now()`. */
  readonly receivedAt: number
  /** The same moment as `performance.now()`. */
  readonly startedAt: number
  /** Where its time went so far. */
  readonly times: Times
  /**
   * Set when the request is only explained: nothing may be taken, sent, counted, kept or changed for it. Only plugins
   * that say `rehearses` see such an exchange.
   */
  readonly rehearsal: Rehearsal | undefined
  /**
   * Set when somebody runs the request from the playground of the admin listener, with a key that is named here and not
   * in the headers. It is a request like any other: it is limited, charged and recorded.
   */
  readonly sponsor: Sponsor | undefined
  /** Aborted when the client leaves or a limit ends the exchange. */
  readonly signal: AbortSignal
  /** Each line carries the exchange's id and the plugin's name, whenever it is written. */
  readonly log: Logger
  /** The attempts so far, oldest first. */
  readonly attempts: readonly Attempt[]
  /** The channels that it may be sent to; undefined before the first one is chosen, and when no channel is asked. */
  readonly candidates: Candidates | undefined
  /** The models that were asked before the candidates' one and did not answer, oldest first. */
  readonly passed: readonly { readonly candidates: Candidates; readonly error: GatewayError }[]
  /**
   * Reads the whole body, once, within the limits; later calls return the same. Only `reads: 'head'` plugins need it.
   */
  read(): Awaitable<RequestBody>
  /**
   * The value of a slot in the plugin's `needs`, which a plugin above has filled. Any other slot is a type error: use
   * `find`.
   */
  get<S extends Needs>(slot: S): SlotValue<S>
  find<T>(slot: Slot<T>): T | undefined
  /** Fills a slot. Written once; a second write throws. */
  set<T>(slot: Slot<T>, value: T): void
  /**
   * Sets a header of the reply, which may be a success, an error or a stream. A header that was set after an attempt
   * began is removed when another attempt follows.
   * @throws TypeError for a name or value that cannot be sent, such as one with a line break
   */
  setHeader(name: string, value: string | number): void
  /** The value that was last set for a header of the reply. The case of the name does not matter. */
  replyHeader(name: string): string | undefined
  /**
   * Keeps the first byte of the answer back until the promise resolves, and in the midst of a stream everything from
   * the message on that a stage is just seeing; a rejection fails the exchange. The request is sent upstream without
   * waiting. `durable` is called once: at once for a stream; for an answer sent as a whole, after the releases; for one
   * that goes out in pieces without being a stream, such as sound, when its first piece is due.
   */
  showAfter(durable: () => Promise<void>): void
  /**
   * Registers a release: a function that gives back something just taken. Releases run once, newest first, however the
   * exchange ends; each starts without waiting for the one before. The client sees the end of its answer after all of
   * them resolved. A {@link GatewayError} from a release replaces the end of the answer; any other error is logged and
   * leaves the answer as it is.
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
