// Clients on HTTP/1.x: one connection and its running answer, written by hand so that an answer and an event cost one write.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Client, FlatHeaders, Front } from './client.ts'
import type { GatewayError } from './errors.ts'
import { rawRefusal } from './refusal.ts'
import { renderHead } from './response-head.ts'

/** Payloads up to this size are copied behind head and frame, one buffer for one write; larger ones are written beside it. */
const copiedBytes = 16 * 1024
/** A declared request body up to this size that nobody read is thrown away and the connection kept. */
const smallBodyBytes = 64 * 1024
/** What is thrown away of a larger one before the connection is closed, so that the client gets to read its answer. */
const lingerBytes = 1024 * 1024
const lingerMs = 2000

const nothing = Buffer.alloc(0)
const chunkEnd = Buffer.from('\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')
const chunkEndAndLastChunk = Buffer.concat([chunkEnd, lastChunk])
const hexDigits = Buffer.from('0123456789abcdef')

/** One connection. Requests are answered one after another: pipelined ones wait. */
export class Http1Connection {
  readonly socket: Socket
  readonly remoteAddress: string
  readonly front: Front
  /** Whose answer is being written. */
  client: Http1Client | undefined
  /** Pipelined requests whose turn has not come. */
  waiting = 0
  /** The latest answer said that it was the last, or the socket was given to somebody else. */
  closing = false
  /** Input cannot be understood any more: what to say about it once the answers before are out. */
  #refusal: Buffer | undefined
  #readLimit = Infinity

  constructor(socket: Socket, remoteAddress: string, front: Front) {
    this.socket = socket
    this.remoteAddress = remoteAddress
    this.front = front
    socket.on('drain', () => this.client?.onDrain?.())
    socket.on('timeout', () => this.destroy())
    socket.on('close', () => this.client?.lost())
  }

  /** Closes the connection unless an answer is under way, which then is the last. */
  drain(): void {
    if (this.client === undefined && this.waiting === 0 && !this.closing) this.socket.destroySoon()
  }

  /** Closes the connection now. An answer that is not out yet must not look complete. */
  destroy(): void {
    if (this.client || this.socket.writableLength > 0) reset(this.socket)
    else this.socket.destroy()
  }

  /** The parser gave up. Answers `error` when its turn comes, and closes the connection. False when that is happening already. */
  fail(error: GatewayError): boolean {
    const { client, socket } = this
    if (this.#readLimit !== Infinity) {
      // Every later piece of input fails again.
      if (socket.bytesRead > this.#readLimit) socket.destroy()
      return false
    }
    this.#readLimit = socket.bytesRead + lingerBytes
    if (this.closing) return false
    this.#refusal = rawRefusal(error)
    if (client === undefined) this.released()
    else if (!client.bodyComplete) {
      // It is the running request that is broken.
      const { headSent } = client
      client.lost()
      if (headSent) socket.destroy()
      else this.#refuse()
    }
    return true
  }

  /** The answer under way is over. */
  released(): void {
    if (this.waiting > 0 || this.closing) return
    if (this.#refusal) this.#refuse()
    else if (this.front.draining) this.socket.destroySoon()
  }

  /** Closes for writing at once, and altogether when the client has done the same or had time to. */
  retire(): void {
    const { socket } = this
    socket.once('finish', () => setTimeout(() => socket.destroy(), lingerMs).unref())
    socket.end()
  }

  #refuse(): void {
    this.closing = true
    this.socket.write(this.#refusal!)
    this.retire()
  }
}

/** One answer on a connection. */
export class Http1Client implements Client {
  onDrain: (() => void) | null = null
  headSent = false
  gone = false
  /** Set to end the connection with this answer. */
  last = false
  readonly #connection: Http1Connection
  readonly #socket: Socket
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  #onGone: (() => void) | null = null
  /** Nothing more may be written: ended, cut or gone. */
  #over = false
  #chunked = false
  #bodiless = false
  /** A head that waits for the first payload; empty when there is none. */
  #head = ''

  constructor(connection: Http1Connection, request: IncomingMessage, response: ServerResponse) {
    this.#connection = connection
    this.#socket = connection.socket
    this.#request = request
    this.#response = response
    // Set for the end of the answer before, when this request was already waiting.
    if (connection.socket.timeout) connection.socket.setTimeout(0)
    connection.client = this
    connection.front.began()
  }

  get onGone(): (() => void) | null {
    return this.#onGone
  }

  set onGone(listener: (() => void) | null) {
    this.#onGone = listener
    if (this.gone) this.#tell()
  }

  /** The request was received to its end. While its head is being handled the parser has not got to the end of any. */
  get bodyComplete(): boolean {
    const { complete, headers } = this.#request
    return complete || (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0)
  }

  reply(status: number, headers: FlatHeaders, body: Buffer): void {
    if (this.#over) return
    const head = this.#begin(status, headers, status === 204 || status === 304 ? undefined : body.length)
    this.#release()
    writeParts(this.#socket, head, false, this.#bodiless ? nothing : body, nothing)
    this.#finish()
  }

  head(status: number, headers: FlatHeaders): void {
    if (this.#over || this.headSent) return
    this.#head = this.#begin(status, headers, undefined)
    process.nextTick(sendHead, this)
  }

  write(bytes: Buffer): boolean {
    const socket = this.#socket
    if (this.#over || this.#bodiless || bytes.length === 0 || !socket.writable) return true
    const head = this.#head
    this.#head = ''
    return writeParts(socket, head, this.#chunked, bytes, this.#chunked ? chunkEnd : nothing)
  }

  end(bytes: Buffer = nothing): void {
    if (this.#over) return
    const socket = this.#socket
    const head = this.#head
    this.#release()
    if (socket.writable) {
      if (this.#bodiless) writeParts(socket, head, false, nothing, nothing)
      else if (!this.#chunked) writeParts(socket, head, false, bytes, nothing)
      else if (bytes.length === 0) writeParts(socket, head, false, lastChunk, nothing)
      else writeParts(socket, head, true, bytes, chunkEndAndLastChunk)
    }
    this.#finish()
  }

  cut(): void {
    if (this.#over) return
    this.gone = true
    this.#release()
    this.#connection.closing = true
    reset(this.#socket)
  }

  /** The connection is closed, or its input broken; called by it. */
  lost(): void {
    if (this.#over) return
    this.gone = true
    this.#release()
    this.#tell()
  }

  /** The head alone, when no payload came in the same turn. */
  sendHead(): void {
    const head = this.#head
    this.#head = ''
    if (head !== '' && !this.#over && this.#socket.writable) writeParts(this.#socket, head, false, nothing, nothing)
  }

  #tell(): void {
    const listener = this.#onGone
    this.#onGone = null
    listener?.()
  }

  /** The head of the answer, which from now on counts as sent. `length`: of the body, undefined when it is not known. */
  #begin(status: number, headers: FlatHeaders, length: number | undefined): string {
    const connection = this.#connection
    const { front } = connection
    const { method, httpVersion } = this.#request
    const bodiless = method === 'HEAD' || status === 204 || status === 304
    // An HTTP/1.0 client may announce chunks in TE; RFC 9112 §7 forbids them to it all the same.
    const old = httpVersion === '1.0'
    const chunked = length === undefined && !bodiless && !old
    // To HTTP/1.0, the end of a body of unknown length is that of the connection.
    const kept = this.#response.shouldKeepAlive && !this.last && !front.draining && this.#keepable() && (length !== undefined || !old)
    let framing = length === undefined ? '' : `Content-Length: ${length}\r\n`
    if (chunked) framing = 'Transfer-Encoding: chunked\r\n'
    framing += kept ? `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(front.keepAlive / 1000)}\r\n` : 'Connection: close\r\n'
    const head = renderHead(status, headers, framing)
    this.headSent = true
    this.#bodiless = bodiless
    this.#chunked = chunked
    if (!kept) connection.closing = true
    return head
  }

  /** What is left of the request is short enough to be read over. */
  #keepable(): boolean {
    return this.bodyComplete || Number(this.#request.headers['content-length'] ?? Infinity) <= smallBodyBytes
  }

  /** Sees to what is left of the request, and to what comes after the answer, which has been written. */
  #finish(): void {
    const socket = this.#socket
    if (!this.bodyComplete) this.#finishEarly()
    else this.#complete()
    // Nobody watches over this answer any more.
    if (socket.writableLength > 0) socket.setTimeout(this.#connection.front.clientStall)
    this.#connection.released()
  }

  #finishEarly(): void {
    const socket = this.#socket
    const request = this.#request
    if (this.#connection.closing) {
      const limit = socket.bytesRead + lingerBytes
      request.on('data', () => {
        if (socket.bytesRead > limit) socket.destroy()
      })
      // Node does not hear of the end: it would close the connection at once, and unread input turn that into a reset.
      this.#connection.retire()
    } else {
      this.#complete()
      const timer = setTimeout(() => socket.destroy(), lingerMs).unref()
      // Ended or lost, the request is not held any longer: a flood of refusals would hold thousands.
      request.once('end', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
    }
    request.resume()
  }

  /** Tells Node's server when the answer has left: it sees to the next request, and to the connection while it is idle. */
  #complete(): void {
    const socket = this.#socket
    if (socket.writableLength === 0) this.#completed()
    else socket.write(nothing, (error) => error || this.#completed())
  }

  #completed(): void {
    // Written beside it, the response does not know by itself.
    this.#response.emit('finish')
    if (this.#connection.closing) this.#socket.destroySoon()
  }

  #release(): void {
    this.#over = true
    this.#connection.client = undefined
    this.#connection.front.ended()
  }
}

function sendHead(client: Http1Client): void {
  client.sendHead()
}

/** Closes a connection so that nobody takes it for an end. TLS has no reset, and what has ended cannot have one any more. */
function reset(socket: Socket): void {
  if ('encrypted' in socket || (socket.writableEnded && socket.writableLength === 0)) socket.destroy()
  else socket.resetAndDestroy()
}

/**
 * Writes what there is of a head, of a payload, as a chunk when `chunked` (RFC 9112 §7.1), and of what comes behind it.
 * False when the socket's buffer is full.
 */
function writeParts(socket: Socket, head: string, chunked: boolean, bytes: Buffer, tail: Buffer): boolean {
  const { length } = bytes
  let at = head.length
  let digits = 0
  if (chunked) for (let rest = length; rest > 0; rest >>= 4) digits++
  const copied = length <= copiedBytes
  const size = at + (chunked ? digits + 2 : 0)
  if (size === 0 && tail.length === 0) return socket.write(bytes)
  const frame = Buffer.allocUnsafe(size + (copied ? length + tail.length : 0))
  if (at > 0) frame.write(head, 'latin1')
  if (chunked) {
    for (let place = at + digits - 1, rest = length; place >= at; place--, rest >>= 4) frame[place] = hexDigits[rest & 15]!
    at += digits
    frame[at++] = 13
    frame[at++] = 10
  }
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
