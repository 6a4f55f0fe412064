// The upstream side as the engine sees it: what is sent, who hears the answer, and how it is held back or given up.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'

/** What is sent. The body is complete: an attempt can be made again on another channel. */
export interface UpstreamRequest {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the channel's base address, with a leading slash. */
  path: string
  /** Flat pairs, lower-case names; the channel's own are added. Not changed any more: an array sent again is not looked at again. */
  headers: readonly string[]
  /** No pieces for a request without a body. */
  body: UpstreamBody
}

/** Header fields of an answer by lower-case name, in no object's shadow: names like `constructor` are only there when sent. */
export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * Receives an answer. Calls come in this order, `onEnd` or `onError` exactly once and last; none after `abort`. A sink that
 * throws from `onHead` or `onData` loses its connection and is told so as any other failure.
 */
export interface UpstreamSink {
  onHead(status: number, headers: UpstreamHeaders): void
  /** The bytes are the sink's: they do not change later. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** Source `upstream`; retryable until the sink has released something. */
  onError(error: GatewayError): void
}

/** A request under way. */
export interface UpstreamCall {
  /** Stops reading from the upstream's socket; at most one chunk still arrives. */
  pause(): void
  resume(): void
  /** Closes the connection unless the answer has ended. The sink hears nothing more. */
  abort(): void
}

/** The upstream side, as small as it can be so that it can be replaced. */
export interface Transport {
  /**
   * Makes ready for channels, before the first request to one of them. To be called once when they are not used any more:
   * connections that were for them alone are ended, at once or with their answers.
   */
  use(channels: Iterable<Channel>): Promise<() => void>
  /** @throws GatewayError when the path or a header can not be sent; the sink hears nothing then */
  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall
  /** Open connections, for metrics. */
  readonly connections: number
  /** Ends idle connections at once and the others when their answers end. */
  close(): Promise<void>
}
