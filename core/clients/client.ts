// The client's side of an exchange as the server hands it to the engine, whatever HTTP version carries it.
import type { BodySource } from './body-source.ts'
import type { Forwarder } from './forwarder.ts'
import type { Sponsor } from './sponsor.ts'
import type { FrameSocket } from '../wire/frame-socket.ts'
import type { HeaderLines } from '../wire/response-head.ts'

/** A request as it arrived: head parsed, body not yet read. */
export interface Incoming {
  readonly method: string
  /** Raw request target: path and query, as sent. Always origin-form; anything else was refused by the server. */
  readonly target: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly remoteAddress: string
  readonly httpVersion: '1.1' | '1.0' | '2.0'
  /**
   * Not received when the exchange is refused early; the server then drains it within limits, or closes the connection.
   */
  readonly body: BodySource
  readonly client: Client
  /**
   * Set when the request is a valid WebSocket handshake. An operation without WebSockets refuses it through `client`.
   */
  readonly socket?: SocketOffer
  /** Set when it comes from the playground of the admin listener. */
  readonly sponsor?: Sponsor
}

/** A WebSocket handshake that has not been answered. */
export interface SocketOffer {
  /** Subprotocols that the client speaks, the preferred one first. */
  readonly subprotocols: readonly string[]
  /**
   * Opens the socket, which then belongs to the caller; `client` must not be used any more. `subprotocol`: one of those
   * offered. `maxMessage`: the most bytes of one message from the client.
   */
  accept(headers: HeaderLines, subprotocol: string | undefined, maxMessage: number): FrameSocket
}

/**
 * Writes one answer: either `reply` once, or `head`, then `write` any number of times, then `end`. When `gone` is true,
 * every call does nothing. The implementation does the framing; the engine hands over payload bytes only.
 */
export interface Client {
  /** A whole answer with `content-length`, in one write. */
  reply(status: number, headers: HeaderLines, body: Buffer): void
  /** Starts a streamed answer. Its head may be sent together with the first `write`. */
  head(status: number, headers: HeaderLines): void
  /**
   * One write to the socket. False when its buffer is full: pause until `onDrain`. `spent`: nobody else needs the
   * bytes, so their memory may be used again as soon as the system has them.
   */
  write(bytes: Buffer, spent?: boolean): boolean
  /** True when small pieces, of up to 8 KiB, may change as soon as `write` has returned. */
  readonly borrows?: boolean
  /** The regular end; `bytes` are sent in the same write. */
  end(bytes?: Buffer): void
  /**
   * Ends the answer without its regular end (a connection reset, RST_STREAM, or a body without its last chunk), so that
   * it cannot look complete. `last` is sent before that, as far as the connection takes it.
   */
  cut(last?: Buffer): void
  /** True when the client left, or the answer was cut. */
  readonly gone: boolean
  readonly headSent: boolean
  /**
   * The origin whose pages may read the answer in a browser, empty for none; undefined when CORS is not configured. Set
   * before the answer begins.
   */
  origin: string | undefined
  /**
   * Called when the socket's buffer is empty again after a `write` returned false. The engine sets it, and clears it
   * with null.
   */
  onDrain: (() => void) | null
  /** Called once when the client leaves before the answer ends; called at once when the client has left already. */
  onGone: (() => void) | null
}

/** The server as its connections and answers see it. */
export interface Front {
  /** True when the server is about to stop, so that every answer is the last of its connection. */
  readonly draining: boolean
  /** Milliseconds after which a client that does not read the end of its answer is cut off. */
  readonly clientStall: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
  /** Takes what comes on open connections, once another process has taken the place of this one. */
  readonly forwarder: Forwarder | undefined
  /** A request was taken up, and its answer is over (or its client gone). */
  began(): void
  ended(): void
}
