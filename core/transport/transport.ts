// The upstream side as the engine sees it: what is sent, how the answer arrives, and how it is paused or given up.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'
import type { FrameSocket } from '../wire/frame-socket.ts'

/** What is sent. The body is complete, so the next attempt can send it again to another channel. */
export interface UpstreamRequest {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the channel's base address, with a leading slash. */
  path: string
  /**
   * Flat pairs of name and value, with lower-case names; the channel's own headers are added. The array must not be
   * changed later: an array that is sent again is not checked again.
   */
  headers: readonly string[]
  /** An empty list when the request has no body. */
  body: UpstreamBody
  /**
   * True when the request must not be sent twice: it then uses a new connection, which no upstream can have closed for
   * idleness.
   */
  once?: boolean
}

/**
 * The fields of an answer by lower-case name, without a prototype: a name like `constructor` is present only when it
 * was sent.
 */
export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * Receives an answer. The calls come in this order; `onEnd` or `onError` is called exactly once, as the last, and
 * nothing is called after `abort`. When `onHead` or `onData` throws, the connection is closed and `onError` is called.
 */
export interface UpstreamSink {
  onHead(status: number, headers: UpstreamHeaders): void
  /** The sink owns the bytes, which do not change later, unless it {@link borrows}. */
  onData(chunk: Buffer): void
  /**
   * Asked before each `onData`. True: the bytes are the sink's until it returns, as it keeps none of them; they are
   * then not copied for it.
   */
  readonly borrows?: boolean
  onEnd(): void
  /** An error of source `upstream`. The request may be tried again as long as the client was shown nothing. */
  onError(error: GatewayError): void
}

/** A request under way. */
export interface UpstreamCall {
  /** True while a part of the request was not handed to a connection, so that the upstream cannot have acted on it. */
  readonly unsent: boolean
  /** Stops reading from the upstream's socket; at most one chunk still arrives. */
  pause(): void
  resume(): void
  /** Closes the connection unless the answer has ended. The sink is not called any more. */
  abort(): void
}

/** A request for a WebSocket to an upstream. */
export interface SocketRequest {
  /** Below the channel's base address, with a leading slash. */
  path: string
  /** By lower-case name; the channel's own headers are added. */
  headers: Readonly<Record<string, string>>
  /** The most bytes of one message from the upstream. */
  maxMessage: number
  /** Aborted when the socket is not needed any more. */
  signal: AbortSignal
}

/** An upstream's refusal of a handshake: an answer with another status than 101, and the beginning of its body. */
export interface UpstreamRefusal {
  status: number
  headers: UpstreamHeaders
  body: Buffer
}

/** Sends requests and receives answers. It is kept small so that it can be replaced. */
export interface HttpTransport {
  /**
   * Prepares for requests to these channels; called before the first one. The returned function is called once when
   * they are not used any more: it closes the connections that only they used, idle ones at once and others after their
   * answers.
   */
  use(channels: Iterable<Channel>): Promise<() => void>
  /**
   * Sends a request.
   * @throws GatewayError when the path or a header cannot be sent; the sink is then not called
   */
  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall
  /** Open connections, for metrics. */
  readonly connections: number
  /** Closes idle connections at once, and the others when their answers end. */
  close(): Promise<void>
}

/** The upstream side: requests and WebSockets. */
export interface Transport extends HttpTransport {
  /**
   * Opens a WebSocket, which the caller has to close, or returns the upstream's refusal of the handshake.
   * @throws GatewayError when there is no connection or no valid answer within the channel's time limits
   */
  connect(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal>
}
