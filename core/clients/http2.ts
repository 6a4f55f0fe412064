// Clients on HTTP/2: one session and the answers on its streams, through Node's core API (its compatible one costs twice as much).
import { constants } from 'node:http2'
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { free } from '../bodies/body-memory.ts'
import type { BodySink, BodySource } from './body-source.ts'
import { Answer } from './answer.ts'
import type { Front, SocketOffer } from './client.ts'
import { addOrigin } from './cors.ts'
import { FrameSocket } from '../wire/frame-socket.ts'
import type { HeaderLines } from '../wire/response-head.ts'

/** Bytes a session may have received that nobody has read. At the protocol's 64 KiB the round trip time would limit uploads. */
const sessionWindow = 1024 * 1024
/** How long a client may take to close its side of a connection that the server has closed, or of a request that was answered before it had come. */
const lingerMs = 2000
/** What is thrown away of such a request. More is not taken, which holds the client back. */
const lingerBytes = 64 * 1024 * 1024
const nothing = Buffer.alloc(0)

/** What a session may do. */
export interface Http2Limits {
  /** Milliseconds without a request or an answer after which the session is closed. */
  idle: number
  /** New streams in a second. Those above are refused, which tells the client that nobody has looked at them. */
  streamsPerSecond: number
}

/** One session. */
export class Http2Connection {
  readonly remoteAddress: string
  readonly front: Front
  readonly #session: ServerHttp2Session
  readonly #socket: Socket
  readonly #limits: Http2Limits
  #running = 0
  #idled = false
  #second = 0
  #opened = 0

  /** `onStream` is called for every request. */
  constructor(
    session: ServerHttp2Session,
    socket: Socket,
    remoteAddress: string,
    limits: Http2Limits,
    front: Front,
    onStream: (connection: Http2Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: string[]) => void
  ) {
    this.remoteAddress = remoteAddress
    this.front = front
    this.#session = session
    this.#socket = socket
    this.#limits = limits
    session.setLocalWindowSize(sessionWindow)
    session.on('stream', (stream, headers, _flags, raw) => {
      // Streams break when their client leaves, whoever listens.
      stream.on('error', () => {})
      if (this.#admits()) onStream(this, stream, headers, raw)
      else stream.close(constants.NGHTTP2_REFUSED_STREAM)
    })
    session.on('timeout', () => this.#idle())
    session.setTimeout(limits.idle)
    socket.once('finish', () => this.#linger())
  }

  /** Sends GOAWAY; answers under way are finished, then the connection is closed. */
  drain(): void {
    this.#session.close()
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

/** The body of a request on a stream, which holds back by itself what nobody reads. */
export class Http2Body implements BodySource {
  readonly #stream: ServerHttp2Stream
  #sink: BodySink | undefined

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream
  }

  receive(sink: BodySink): void {
    const stream = this.#stream
    if (stream.destroyed) return sink.lost()
    this.#sink = sink
    stream.on('data', (chunk: Buffer) => {
      this.#sink?.data(chunk)
      free(chunk)
    })
    stream.on('end', () => this.#over()?.end())
    stream.on('close', () => this.#over()?.lost())
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    if (this.#sink) this.#stream.resume()
  }

  abandon(): void {
    this.#sink = undefined
    this.#stream.pause()
  }

  #over(): BodySink | undefined {
    const sink = this.#sink
    this.#sink = undefined
    return sink
  }
}

/** One answer on a stream. */
export class Http2Client extends Answer {
  readonly #connection: Http2Connection
  readonly #stream: ServerHttp2Stream
  readonly #isHead: boolean
  #bodiless = false
  #drains = false

  constructor(connection: Http2Connection, stream: ServerHttp2Stream, isHead: boolean) {
    super(connection)
    this.#connection = connection
    this.#stream = stream
    this.#isHead = isHead
    stream.once('close', () => this.lost())
  }

  reply(status: number, headers: HeaderLines, body: Buffer): void {
    if (this.#closed) return
    if (this.origin !== undefined) addOrigin(headers, this.origin)
    const flat = headers.pairs()
    if (status !== 204 && status !== 304) flat.push('content-length', String(body.length))
    this.#respond(status, flat, body.length === 0)
    if (!this.#bodiless) this.#stream.end(body)
    this.#finish()
  }

  head(status: number, headers: HeaderLines): void {
    if (this.#closed || this.headSent) return
    if (this.origin !== undefined) addOrigin(headers, this.origin)
    this.#respond(status, headers.pairs(), false)
  }

  write(bytes: Buffer): boolean {
    if (this.#closed || this.#bodiless || bytes.length === 0) return true
    const flowing = this.#stream.write(bytes)
    if (!flowing && !this.#drains) {
      this.#drains = true
      this.#stream.on('drain', () => this.onDrain?.())
    }
    return flowing
  }

  end(bytes?: Buffer): void {
    if (this.#closed) return
    if (!this.#bodiless) this.#stream.end(bytes)
    this.#finish()
  }

  /** Of a request that is a WebSocket handshake (RFC 8441 §5): what is then said goes to and fro on its stream. */
  offer(subprotocols: readonly string[]): SocketOffer {
    return {
      subprotocols,
      accept: (headers, subprotocol, maxMessage) => {
        const stream = this.#stream
        this.over = true
        this.headSent = true
        stream.once('close', () => this.#connection.ended())
        const chosen = subprotocol === undefined ? [] : ['sec-websocket-protocol', subprotocol]
        stream.respond([':status', '200', ...headers.pairs(), ...chosen])
        return FrameSocket.accepted(stream, nothing, maxMessage)
      }
    }
  }

  cut(): void {
    if (this.over) return
    this.gone = true
    this.release()
    // Not close(), which first ends the stream: the client would get END_STREAM and see a complete answer.
    this.#stream.destroy(new Error('the answer was cut'))
  }

  /** Also before the event that says so has come. */
  get #closed(): boolean {
    return this.over || this.#stream.closed || this.#stream.destroyed
  }

  #respond(status: number, headers: string[], empty: boolean): void {
    const stream = this.#stream
    const bodiless = empty || this.#isHead || status === 204 || status === 304
    stream.respond([':status', String(status), ...headers], { endStream: bodiless })
    this.headSent = true
    this.#bodiless = bodiless
  }

  #finish(): void {
    const stream = this.#stream
    this.release()
    if (stream.endAfterHeaders || stream.readableEnded) return
    this.#linger()
  }

  /** The rest of the request is not wanted (RFC 9113 §8.1). Said at once, some clients take it for a failure and do not read the answer before it. */
  #linger(): void {
    const stream = this.#stream
    let left = lingerBytes
    // Before whoever gives the memory of the chunk back.
    stream.prependListener('data', ({ length }: Buffer) => {
      left -= length
      if (left < 0) stream.pause()
    })
    stream.resume()
    const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), lingerMs)
    stream.once('close', () => clearTimeout(timer))
  }
}
