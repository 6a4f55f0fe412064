// One answer on an HTTP/2 stream.
import type { ServerHttp2Stream } from 'node:http2'
import { Answer } from '../answer.ts'
import type { SocketOffer } from '../client.ts'
import { addOrigin } from '../cors.ts'
import { FrameSocket } from '../../wire/frame-socket.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import { errorCodes } from '../../wire/http2.ts'
import { giveBlock } from '../../wire/read-blocks.ts'
import type { HeaderLines } from '../../wire/response-head.ts'
import type { Http2Connection } from './connection.ts'

/**
 * How long a client may go on sending a request that was answered early, or leave the last bytes of a cut answer
 * unread.
 */
const lingerMs = 2000
/** How many bytes of such a request are thrown away. More is not read, which holds the client back. */
const lingerBytes = 64 * 1024 * 1024
/** The end of an answer is given in pieces of so many bytes, so that it is seen whether its client takes it. */
const pieceBytes = 128 * 1024
const nothing = Buffer.alloc(0)

/** The answer to one request. One is made per request. */
export class Http2Client extends Answer {
  readonly #connection: Http2Connection
  readonly #stream: ServerHttp2Stream
  readonly #isHead: boolean
  #bodiless = false
  #drains = false
  /** Whether some of a large end was not given to the stream yet. */
  #passing = false

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
    this.#finish(body)
  }

  head(status: number, headers: HeaderLines): void {
    if (this.#closed || this.headSent) return
    if (this.origin !== undefined) addOrigin(headers, this.origin)
    this.#respond(status, headers.pairs(), false)
  }

  write(bytes: Buffer, spent = false): boolean {
    if (this.#closed || this.#bodiless || bytes.length === 0) return true
    // What was not sent, as the stream is lost, is left to the garbage collector.
    const sent = spent ? (error?: Error | null) => void (error ?? giveBlock(bytes)) : undefined
    const flowing = this.#stream.write(bytes, sent)
    if (!flowing && !this.#drains) {
      this.#drains = true
      this.#stream.on('drain', () => this.onDrain?.())
    }
    return flowing
  }

  end(bytes = nothing): void {
    if (!this.#closed) this.#finish(bytes)
  }

  /**
   * Makes the offer for a WebSocket handshake (RFC 8441 §5). The frames of the socket go over the stream of the
   * request.
   */
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
        return new FrameSocket(stream, { side: 'server', maxMessage })
      }
    }
  }

  cut(last: Buffer = nothing): void {
    if (this.over) return
    const stream = this.#stream
    this.gone = true
    this.release()
    // close() would first end the stream, so that the client would get END_STREAM and see a complete answer.
    const destroy = (): void => void stream.destroy(new Error('the answer was cut'))
    if (last.length === 0 || this.#bodiless) return destroy()
    stream.write(last, destroy)
    // A client that does not read may never take `last`.
    stream.setTimeout(lingerMs, destroy)
  }

  /** Checks the stream too, because its `close` event comes late. */
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

  /** Ends the answer with these bytes. */
  #finish(bytes: Buffer): void {
    const stream = this.#stream
    this.release()
    if (bytes.length > pieceBytes && !this.#bodiless) this.#pass(bytes)
    else if (!this.#bodiless) stream.end(bytes)
    if (!stream.endAfterHeaders && !stream.readableEnded) this.#linger()
  }

  /**
   * Gives the stream a large end. No exchange watches over it, so the stream ends with an error when its client takes
   * no piece for too long: a session goes on as long as anything goes over it.
   */
  #pass(bytes: Buffer): void {
    const stream = this.#stream
    const { clientStall } = this.#connection.front
    const stalls = new Deadline(clientStall, () => stream.destroy(new Error('the client reads nothing')))
    stream.once('close', () => stalls.clear())
    this.#passing = true
    const pass = (at: number): void => {
      const to = at + pieceBytes
      if (to >= bytes.length) {
        this.#passing = false
        return void stream.end(bytes.subarray(at))
      }
      stream.write(bytes.subarray(at, to), (error) => {
        if (error) return
        stalls.refresh()
        pass(to)
      })
    }
    pass(0)
  }

  /**
   * Reads and throws away the rest of the request for a while, before RST_STREAM with NO_ERROR (RFC 9113 §8.1) says
   * that it is not wanted. Some clients take a reset at once for a failure, and do not read the answer.
   */
  #linger(): void {
    const stream = this.#stream
    let left = lingerBytes
    // The listener of the body releases the memory of the chunk, so this one must run before it.
    stream.prependListener('data', ({ length }: Buffer) => {
      left -= length
      if (left < 0) stream.pause()
    })
    stream.resume()
    // Before all of the answer is given, this would end it as if it were complete.
    const close = (): void => void (this.#passing ? stream.once('finish', close) : stream.close(errorCodes.noError))
    const timer = setTimeout(close, lingerMs)
    stream.once('close', () => clearTimeout(timer))
  }
}
