// The client's side of an exchange as the server hands it to the engine, whatever HTTP version carries it.
import type { BodySource } from './body-source.ts'
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
  /** Never taken when the exchange is refused early (the server then closes or drains it, bounded). */
  readonly body: BodySource
  readonly client: Client
  /** There when the request is a sound WebSocket handshake. Whoever has none for it refuses it through the client. */
  readonly socket?: SocketOffer
}

/** A WebSocket handshake that has not been answered. */
export interface SocketOffer {
  /** Subprotocols that the client speaks, the preferred one first. */
  readonly subprotocols: readonly string[]
  /**
   * Opens the socket, which is the caller's; the client is not used any more. `subprotocol`: one that was offered.
   * `maxMessage`: bytes of one message that the client may send.
   */
  accept(headers: HeaderLines, subprotocol: string | undefined, maxMessage: number): FrameSocket
}

/**
 * Writes one answer. Either `reply` once, or `head`, `write`…, `end`. After `gone` every call is a no-op.
 * Framing is the implementation's: the engine hands over payload bytes only.
 */
export interface Client {
  /** A whole answer with `content-length`, in one write. */
  reply(status: number, headers: HeaderLines, body: Buffer): void
  /** Commits the head of a streamed answer; it may leave together with the first `write`. */
  head(status: number, headers: HeaderLines): void
  /** One write to the socket. False: its buffer is full, pause until `onDrain`. */
  write(bytes: Buffer): boolean
  /** The clean end; `bytes` leave in the same write. */
  end(bytes?: Buffer): void
  /**
   * Ends without the clean end marker (connection reset, RST_STREAM, a body without its last chunk): the answer must
   * not look complete. `last` is sent before, as far as the connection takes it.
   */
  cut(last?: Buffer): void
  /** The client left, or was cut. */
  readonly gone: boolean
  readonly headSent: boolean
  /**
   * Whose page may read the answer in its browser, empty for nobody's; undefined where that is never looked at. Set
   * before the answer begins.
   */
  origin: string | undefined
  /** The socket's buffer is empty again after a `write` returned false. Set by the engine, cleared with null. */
  onDrain: (() => void) | null
  /** The client left before the answer ended; called once, at once when it already had. */
  onGone: (() => void) | null
}

/** The server as its clients see it. */
export interface Front {
  /** The server is about to stop: every answer is the last one of its connection. */
  readonly draining: boolean
  /** Milliseconds after which a client that does not take the end of its answer is cut. */
  readonly clientStall: number
  /** Milliseconds that an idle connection is kept. */
  readonly keepAlive: number
  /** A request was taken up, and its answer is over (or its client gone). */
  began(): void
  ended(): void
}
