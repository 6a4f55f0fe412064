// The upstream side as the engine sees it: what is sent, who hears the answer, and how it is held back or given up.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'
import type { FrameSocket } from '../wire/frame-socket.ts'

/** What is sent. The body is complete: an attempt can be made again on another channel. */
export interface UpstreamRequest {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the channel's base address, with a leading slash. */
  path: string
  /**
   * Flat pairs, lower-case names; the channel's own are added. Not changed any more: an array sent again is not looked
   * at again.
   */
  headers: readonly string[]
  /** No pieces for a request without a body. */
  body: UpstreamBody
  /** It must not get there twice: it goes over a connection never used before, which no upstream can have given up. */
  once?: boolean
}

/**
 * Header fields of an answer by lower-case name, in no object's shadow: names like `constructor` are only there when
 * sent.
 */
export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * Receives an answer. Calls come in this order, `onEnd` or `onError` exactly once and last; none after `abort`. A sink
 * that throws from `onHead` or `onData` loses its connection and is told so as any other failure.
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
  /** Not all of the request has been handed to a connection: nobody can have acted on it. */
  readonly unsent: boolean
  /** Stops reading from the upstream's socket; at most one chunk still arrives. */
  pause(): void
  resume(): void
  /** Closes the connection unless the answer has ended. The sink hears nothing more. */
  abort(): void
}

/** A WebSocket that is asked for. */
export interface SocketRequest {
  /** Below the channel's base address, with a leading slash. */
  path: string
  /** By lower-case name; the channel's own are added. */
  headers: Readonly<Record<string, string>>
  /** Bytes of one message that the upstream may send. */
  maxMessage: number
  /** Aborted when nobody wants it any more. */
  signal: AbortSignal
}

/** How an upstream refused a handshake: an answer with another status than 101, and the beginning of its body. */
export interface UpstreamRefusal {
  status: number
  headers: UpstreamHeaders
  body: Buffer
}

/** Requests and their answers, as small as it can be so that it can be replaced. */
export interface HttpTransport {
  /**
   * Makes ready for channels, before the first request to one of them. To be called once when they are not used any
   * more: connections that were for them alone are ended, at once or with their answers.
   */
  use(channels: Iterable<Channel>): Promise<() => void>
  /** @throws GatewayError when the path or a header cannot be sent; the sink hears nothing then */
  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall
  /** Open connections, for metrics. */
  readonly connections: number
  /** Ends idle connections at once and the others when their answers end. */
  close(): Promise<void>
}

/** The upstream side. */
export interface Transport extends HttpTransport {
  /**
   * Opens a WebSocket. It is the caller's to close.
   * @throws GatewayError when there is no connection, or no sensible answer, in the channel's time for it
   */
  connect(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal>
}
