// One HTTP/2 session of a client. Uses Node's core API, because its compatibility API costs twice as much.
import { constants } from 'node:http2'
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Front } from '../client.ts'

/**
 * Bytes that a session may have received unread. With the protocol's 64 KiB, the round trip time would limit uploads.
 */
const sessionWindow = 1024 * 1024
/** How long a client may take to close its side of a connection that the server has closed. */
const lingerMs = 2000
/**
 * GOAWAY without an error and with the highest id as the last stream, which only announces another one (RFC 9113 §6.8).
 * Node's session takes no more streams after a GOAWAY that it has sent itself, so this one is written beside it.
 */
const notice = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])
/** How long the answer to a ping may take, after which nothing is known to be on its way any more. */
const roundTripMs = 1000

/** The limits of a session. */
export interface Http2Limits {
  /** Milliseconds without a request or an answer after which the session is closed. */
  idle: number
  /**
   * New streams per second. Streams above this are refused with REFUSED_STREAM: the client knows that nothing was done.
   */
  streamsPerSecond: number
}

/** One HTTP/2 session, which counts its answers to know when it is idle. */
export class Http2Connection {
  readonly remoteAddress: string
  readonly front: Front
  readonly #session: ServerHttp2Session
  readonly #socket: Socket
  readonly #limits: Http2Limits
  #running = 0
  #idled = false
  #draining = false
  #second = 0
  #opened = 0

  /** `onStream` is called for every request. */
  constructor(
    session: ServerHttp2Session,
    socket: Socket,
    remoteAddress: string,
    limits: Http2Limits,
    front: Front,
    onStream: (
      connection: Http2Connection,
      stream: ServerHttp2Stream,
      headers: IncomingHttpHeaders,
      raw: string[]
    ) => void
  ) {
    this.remoteAddress = remoteAddress
    this.front = front
    this.#session = session
    this.#socket = socket
    this.#limits = limits
    session.setLocalWindowSize(sessionWindow)
    session.on('stream', (stream, headers, _flags, raw) => {
      // A stream breaks when its client leaves; without a listener, that error would end the process.
      stream.on('error', () => {})
      if (this.#admits()) onStream(this, stream, headers, raw)
      else stream.close(constants.NGHTTP2_REFUSED_STREAM)
    })
    session.on('timeout', () => this.#idle())
    session.setTimeout(limits.idle)
    socket.once('finish', () => this.#linger())
  }

  /**
   * Announces the end of the session, and after a round trip sends GOAWAY with the last stream that it takes (RFC 9113
   * §6.8): what a client sent before it heard of the end is answered too. Answers under way are finished, then the
   * connection is closed.
   */
  drain(): void {
    const session = this.#session
    if (this.#draining || session.destroyed) return
    this.#draining = true
    const close = (): void => {
      clearTimeout(timer)
      if (!session.closed) session.close()
    }
    const timer = setTimeout(close, roundTripMs).unref()
    this.#socket.write(notice)
    session.ping(close)
  }

  /** Closes the connection now, with an error for every answer under way. */
  destroy(): void {
    this.#session.destroy(new Error('the server is closed'), constants.NGHTTP2_INTERNAL_ERROR)
  }

  /** An answer begins. */
  began(): void {
    this.#running++
    this.front.began()
  }

  /** An answer is over. */
  ended(): void {
    this.front.ended()
    if (--this.#running > 0 || !this.#idled) return
    // The session's timer ran out while an answer was silent, and only traffic would set it again.
    this.#idled = false
    this.#session.setTimeout(this.#limits.idle)
  }

  #admits(): boolean {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) this.#opened = 0
    this.#second = second
    return ++this.#opened <= this.#limits.streamsPerSecond
  }

  #idle(): void {
    this.#idled = true
    if (this.#running > 0) return
    this.#session.destroy()
    this.#linger()
  }

  #linger(): void {
    setTimeout(() => this.#socket.destroy(), lingerMs).unref()
  }
}
