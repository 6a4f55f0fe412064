// One HTTP/2 session of a client. Uses Node's core API, because its compatibility API costs twice as much.
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { errorCodes } from '../../wire/http2.ts'
import type { Front } from '../client.ts'

/**
 * Bytes that a session may have received unread. With the protocol's 64 KiB, the round trip time would limit uploads.
 */
const sessionWindow = 1024 * 1024
/**
 * How long a client may take to close its side of a connection that the server has closed. After an answer within the
 * same time it may take as long as it may to read one: what it sends meanwhile would be answered with a reset, which
 * takes away what it has not read.
 */
const lingerMs = 2000
/** The limits of a session. */
export interface Http2Limits {
  /**
   * Milliseconds without a request or an answer after which the session is closed; 0 for one of another process, which
   * ends it itself.
   */
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
  readonly socket: Socket
  readonly #limits: Http2Limits
  #running = 0
  #idled = false
  #leaving = false
  #endedAt = -Infinity
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
    this.socket = socket
    this.#limits = limits
    session.setLocalWindowSize(sessionWindow)
    session.on('stream', (stream, headers, _flags, raw) => {
      // A stream breaks when its client leaves; without a listener, that error would end the process.
      stream.on('error', () => {})
      if (this.#admits()) onStream(this, stream, headers, raw)
      else stream.close(errorCodes.refusedStream)
    })
    session.on('timeout', () => this.#ranOut())
    session.setTimeout(limits.idle)
    socket.once('finish', () => this.#linger())
  }

  /**
   * Sends GOAWAY with the last stream that is taken; answers under way are finished, then the connection is closed. A
   * stream that crosses the GOAWAY was not taken, as its client can tell by the number. The earlier notice of RFC 9113
   * §6.8 cannot be sent: after any GOAWAY Node's session takes no more streams.
   */
  drain(): void {
    if (!this.#session.destroyed) this.#session.close()
  }

  /** Drains the session as soon as no answer is under way: fewer streams cross its end then. */
  leave(): void {
    if (this.#limits.idle === 0) return
    this.#leaving = true
    if (this.#running === 0) this.drain()
  }

  /** Closes the connection now, with an error for every answer under way. */
  destroy(): void {
    this.#session.destroy(new Error('the server is closed'), errorCodes.internalError)
  }

  /** An answer begins. */
  began(): void {
    this.#running++
    this.front.began()
  }

  /** An answer is over. */
  ended(): void {
    this.front.ended()
    this.#endedAt = performance.now()
    if (--this.#running > 0) return
    if (this.#leaving) return this.drain()
    if (!this.#idled) return
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

  #ranOut(): void {
    this.#idled = true
    // The timer of the session comes before what has arrived on it.
    setImmediate(() => this.#idle())
  }

  #idle(): void {
    if (this.#running > 0 || !this.#idled) return
    this.#session.destroy()
    this.#linger()
  }

  #linger(): void {
    const isReading = performance.now() - this.#endedAt < lingerMs
    setTimeout(() => this.socket.destroy(), isReading ? this.front.clientStall : lingerMs).unref()
  }
}
