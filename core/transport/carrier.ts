// What is between a call and a connection, whoever speaks HTTP on it.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { UpstreamHeaders } from './transport.ts'

/** A request with its body up to this size is put together for one write of one buffer. */
export const oneWriteBytes = 16 * 1024

/** A request, and the hearer of its answer. Calls as in UpstreamSink, `onLost` in the place of `onError`. */
export interface Answering {
  /** As HTTP/1.1 has it, in Latin1. */
  readonly head: string
  readonly body: UpstreamBody
  onHead(status: number, headers: UpstreamHeaders): void
  onData(chunk: Buffer): void
  onEnd(): void
  /** `unheard`: the connection had carried an answer before, and not a byte of this one has come. */
  onLost(cause: Error, unheard: boolean): void
}

/** What carries calls, one at a time, over a connection that is there or is being opened. */
export interface Carrier {
  /** Not all of the request that is under way has been handed over. */
  readonly unsent: boolean
  /** Sends a call's request, once there is a connection. Not while another call is under way. */
  send(call: Answering): void
  /** Stops reading, and goes on. */
  pause(): void
  resume(): void
  /** Closes it. The call that is under way hears nothing more. */
  destroy(): void
  /** Its time of waiting begins. */
  wait(now: number): void
  /** It can carry another call. `now`: `performance.now()`. */
  usable(now: number): boolean
}

/**
 * Who keeps connections. Told once of each socket that it is being opened, that it is open, and that it is closed; and
 * after each answer that allows another.
 */
export interface Keeper {
  opening(): void
  opened(): void
  /** `wasOpen` is false when there never was a connection. */
  closed(wasOpen: boolean): void
  released(carrier: Carrier): void
}
