// One answer on an HTTP/1.x connection, written by hand so that an answer and an event cost one write.
import type { Socket } from 'node:net'
import { Answer } from '../answer.ts'
import type { Front } from '../client.ts'
import { addOrigin } from '../cors.ts'
import { renderHead } from '../../wire/response-head.ts'
import type { HeaderLines } from '../../wire/response-head.ts'
import type { Http1Body } from './body.ts'
import type { Http1Head } from './request-head.ts'

/**
 * Payloads up to this size are copied behind head and frame, one buffer for one write, which saves a third of a
 * microsecond an event; larger ones are written beside it.
 */
const copiedBytes = 16 * 1024
/** A declared request body up to this size that nobody read is thrown away and the connection kept. */
const smallBodyBytes = 64 * 1024

const nothing = Buffer.alloc(0)
const chunkEnd = Buffer.from('\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')
const chunkEndAndLastChunk = Buffer.concat([chunkEnd, lastChunk])

/** The connection as the answer on it sees it. */
export interface AnswerCarrier {
  readonly socket: Socket
  readonly front: Front
  /** This answer is the last. */
  closing: boolean
  /** The answer is over, and written. */
  released(): void
  /** Ends the connection so that the answer cannot be taken for a complete one. */
  cut(): void
}

/** Made for a request. */
export class Http1Client extends Answer {
  readonly #connection: AnswerCarrier
  readonly #socket: Socket
  readonly #request: Http1Head
  /** Undefined when the request has none. */
  readonly #body: Http1Body | undefined
  #chunked = false
  #bodiless = false
  /** A head that waits for the first payload; empty when there is none. */
  #head = ''

  constructor(connection: AnswerCarrier, request: Http1Head, body: Http1Body | undefined) {
    super(connection.front)
    this.#connection = connection
    this.#socket = connection.socket
    this.#request = request
    this.#body = body
    // Set for the end of the answer before, which may still be on its way.
    if (connection.socket.timeout) connection.socket.setTimeout(0)
  }

  reply(status: number, headers: HeaderLines, body: Buffer): void {
    if (this.over) return
    const head = this.#begin(status, headers, status === 204 || status === 304 ? undefined : body.length)
    this.release()
    writeParts(this.#socket, head, false, this.#bodiless ? nothing : body, nothing)
    this.#connection.released()
  }

  head(status: number, headers: HeaderLines): void {
    if (this.over || this.headSent) return
    this.#head = this.#begin(status, headers, undefined)
    process.nextTick(sendHead, this)
  }

  write(bytes: Buffer): boolean {
    const socket = this.#socket
    if (this.over || this.#bodiless || bytes.length === 0 || !socket.writable) return true
    const head = this.#head
    this.#head = ''
    return writeParts(socket, head, this.#chunked, bytes, this.#chunked ? chunkEnd : nothing)
  }

  end(bytes: Buffer = nothing): void {
    if (this.over) return
    const socket = this.#socket
    const head = this.#head
    this.release()
    if (socket.writable) {
      if (this.#bodiless) writeParts(socket, head, false, nothing, nothing)
      else if (!this.#chunked) writeParts(socket, head, false, bytes, nothing)
      else if (bytes.length === 0) writeParts(socket, head, false, lastChunk, nothing)
      else writeParts(socket, head, true, bytes, chunkEndAndLastChunk)
    }
    this.#connection.released()
  }

  cut(last: Buffer = nothing): void {
    if (this.over) return
    const head = this.#head
    const told = last.length > 0 && !this.#bodiless && this.#socket.writable
    this.gone = true
    this.release()
    if (told) writeParts(this.#socket, head, this.#chunked, last, this.#chunked ? chunkEnd : nothing)
    if (!told || !this.#chunked) return this.#connection.cut()
    // A body without its last chunk is not whole, however the connection ends; a reset could lose its last words.
    this.#connection.closing = true
    this.#connection.released()
  }

  /** The head alone, when no payload came in the same turn. */
  sendHead(): void {
    const head = this.#head
    this.#head = ''
    if (head !== '' && !this.over && this.#socket.writable) writeParts(this.#socket, head, false, nothing, nothing)
  }

  /**
   * The head of the answer, which from now on counts as sent. `length`: of the body, undefined when it is not known.
   */
  #begin(status: number, headers: HeaderLines, length: number | undefined): string {
    const connection = this.#connection
    const { front } = connection
    const { method, httpVersion, persistent } = this.#request
    const bodiless = method === 'HEAD' || status === 204 || status === 304
    // An HTTP/1.0 client may announce chunks in TE; RFC 9112 §7 forbids them to it all the same.
    const old = httpVersion === '1.0'
    const chunked = length === undefined && !bodiless && !old
    // To HTTP/1.0, the end of a body of unknown length is that of the connection.
    const kept = persistent && !front.draining && this.#keepable() && (length !== undefined || !old)
    const persistence = kept
      ? `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(front.keepAlive / 1000)}\r\n`
      : 'Connection: close\r\n'
    if (this.origin !== undefined) addOrigin(headers, this.origin)
    const head = renderHead(
      status,
      headers,
      length,
      chunked ? `Transfer-Encoding: chunked\r\n${persistence}` : persistence
    )
    this.headSent = true
    this.#bodiless = bodiless
    this.#chunked = chunked
    if (!kept) connection.closing = true
    return head
  }

  /** What is left of the request is short enough to be read over, and sure to come. */
  #keepable(): boolean {
    const body = this.#body
    return (
      body === undefined || body.complete || (!body.awaited && (this.#request.length ?? Infinity) <= smallBodyBytes)
    )
  }
}

function sendHead(client: Http1Client): void {
  client.sendHead()
}

/**
 * Writes what there is of a head, of a payload, as a chunk when `chunked` (RFC 9112 §7.1), and of what comes behind it.
 * False when the socket's buffer is full.
 */
function writeParts(socket: Socket, head: string, chunked: boolean, bytes: Buffer, tail: Buffer): boolean {
  const { length } = bytes
  const start = chunked ? `${head}${length.toString(16)}\r\n` : head
  const at = start.length
  if (at === 0 && tail.length === 0) return socket.write(bytes)
  const copied = length <= copiedBytes
  const frame = Buffer.allocUnsafe(copied ? at + length + tail.length : at)
  frame.write(start, 'latin1')
  if (copied) {
    bytes.copy(frame, at)
    tail.copy(frame, at + length)
    return socket.write(frame)
  }
  socket.cork()
  socket.write(frame)
  const flowing = socket.write(bytes)
  if (tail.length > 0) socket.write(tail)
  socket.uncork()
  return flowing
}
