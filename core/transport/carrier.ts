// The interfaces between a call and its connection, for every implementation of HTTP.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { UpstreamHeaders } from './transport.ts'

/**
 * A request, and the listener to its answer. It is called as an UpstreamSink is, with `onLost` in place of `onError`.
 */
export interface Answering {
  /** The request line and headers in the form of HTTP/1.1, latin1. */
  readonly head: string
  readonly body: UpstreamBody
  onHead(status: number, headers: UpstreamHeaders): void
  onData(chunk: Buffer): void
  /** As of a sink: the bytes of the next `onData` are its own during the call alone. */
  readonly borrows: boolean
  onEnd(): void
  /** `unheard`: the connection had carried an answer before, and no byte of this one has come. */
  onLost(cause: Error, unheard: boolean): void
}

/** Carries calls, one at a time, over a connection that is open or being opened. */
export interface Carrier {
  /** True while a part of the current request was not handed over to the network. */
  readonly unsent: boolean
  /** Sends a call's request, once the connection is open. Must not be called while another call is under way. */
  send(call: Answering): void
  /** Pauses and resumes the reading of the answer. */
  pause(): void
  resume(): void
  /** Closes the connection. The current call is not told. */
  destroy(): void
  /** Says that the connection is idle from `now` on, which starts its time limit. `now`: `performance.now()`. */
  wait(now: number): void
  /** Whether it can carry another call. `now`: `performance.now()`. */
  usable(now: number): boolean
}

/**
 * The owner of connections. Told once per socket that it is being opened, that it is open, and that it is closed; and
 * after each answer that leaves the connection usable.
 */
export interface Keeper {
  opening(): void
  opened(): void
  /** `wasOpen`: false when the connection was never established. */
  closed(wasOpen: boolean): void
  released(carrier: Carrier): void
}
