// Clients on HTTP/1.x: one connection and its running answer, framed by hand so that an event costs one write.
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { withoutFraming } from './client.ts'
import type { Client, FlatHeaders, Front } from './client.ts'
import type { GatewayError } from './errors.ts'
import { rawRefusal } from './refusal.ts'

/** Payloads up to this size are copied into their frame, one buffer for one write; larger ones are written beside it. */
const copiedBytes = 16 * 1024
/** A declared request body up to this size that nobody read is thrown away and the connection kept. */
const smallBodyBytes = 64 * 1024
/** What is thrown away of a larger one before the connection is closed, so that the client gets to read its answer. */
const lingerBytes = 1024 * 1024
const lingerMs = 2000

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
  /** The head is in the socket's cork, waiting for the first payload. */
  #corked = false

  constructor(connection: Http1Connection, request: IncomingMessage, response: ServerResponse) {
    this.#connection = connection
    this.#socket = connection.socket
    this.#request = request
    this.#response = response
    // An HTTP/1.0 client may announce chunks in TE; RFC 9112 §7 forbids them to it all the same.
    if (request.httpVersion === '1.0') response.useChunkedEncodingByDefault = false
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
    const flat = withoutFraming(headers)
    if (status !== 204 && status !== 304) flat.push('Content-Length', String(body.length))
    this.#writeHead(status, flat)
    this.#finish(body)
  }

  head(status: number, headers: FlatHeaders): void {
    if (this.#over || this.headSent) return
    const response = this.#response
    this.#writeHead(status, withoutFraming(headers))
    // From here on the chunks are our own.
    this.#chunked = response.chunkedEncoding
    response.chunkedEncoding = false
    this.#corked = true
    this.#socket.cork()
    response.flushHeaders()
    process.nextTick(uncork, this)
  }

  write(bytes: Buffer): boolean {
    const socket = this.#socket
    if (this.#over || this.#bodiless || bytes.length === 0 || !socket.writable) return true
    const flowing = this.#chunked ? writeChunk(socket, bytes, chunkEnd) : socket.write(bytes)
    this.uncork()
    return flowing
  }

  end(bytes?: Buffer): void {
    if (this.#over) return
    const socket = this.#socket
    if (socket.writable && !this.#bodiless) {
      if (bytes === undefined || bytes.length === 0) {
        if (this.#chunked) socket.write(lastChunk)
      } else if (this.#chunked) writeChunk(socket, bytes, chunkEndAndLastChunk)
      else socket.write(bytes)
    }
    this.uncork()
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

  uncork(): void {
    if (!this.#corked) return
    this.#corked = false
    this.#socket.uncork()
  }

  #tell(): void {
    const listener = this.#onGone
    this.#onGone = null
    listener?.()
  }

  #writeHead(status: number, headers: FlatHeaders): void {
    const response = this.#response
    const { draining } = this.#connection.front
    if (this.last || draining || !this.#keepable()) response.shouldKeepAlive = false
    // The reason is given because a failed attempt (an invalid header) would leave its own behind.
    response.writeHead(status, STATUS_CODES[status] ?? 'Unknown', headers)
    this.headSent = true
    this.#bodiless = this.#request.method === 'HEAD' || status === 204 || status === 304
    if (!response.shouldKeepAlive) this.#connection.closing = true
  }

  /** What is left of the request is short enough to be read over. */
  #keepable(): boolean {
    return this.bodyComplete || Number(this.#request.headers['content-length'] ?? Infinity) <= smallBodyBytes
  }

  /** Ends the response, and sees to what is left of the request. `body` is that of a reply. */
  #finish(body?: Buffer): void {
    const socket = this.#socket
    const response = this.#response
    this.#release()
    if (this.bodyComplete) response.end(body)
    else this.#finishEarly(body)
    // Nobody watches over this answer any more.
    if (socket.writableLength > 0) socket.setTimeout(this.#connection.front.clientStall)
    this.#connection.released()
  }

  #finishEarly(body: Buffer | undefined): void {
    const socket = this.#socket
    const request = this.#request
    const response = this.#response
    if (this.#connection.closing) {
      const limit = socket.bytesRead + lingerBytes
      request.on('data', () => {
        if (socket.bytesRead > limit) socket.destroy()
      })
      // The response is not ended: Node would close the connection at once, and unread input turn that into a reset.
      socket.cork()
      response.flushHeaders()
      if (body && !this.#bodiless) socket.write(body)
      this.#connection.retire()
    } else {
      response.end(body)
      const timer = setTimeout(() => socket.destroy(), lingerMs).unref()
      // Ended or lost, the request is not held any longer: a flood of refusals would hold thousands.
      request.once('end', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
    }
    request.resume()
  }

  #release(): void {
    this.#over = true
    this.#connection.client = undefined
    this.#connection.front.ended()
  }
}

function uncork(client: Http1Client): void {
  client.uncork()
}

/** Closes a connection so that nobody takes it for an end. TLS has no reset, and what has ended cannot have one any more. */
function reset(socket: Socket): void {
  if ('encrypted' in socket || (socket.writableEnded && socket.writableLength === 0)) socket.destroy()
  else socket.resetAndDestroy()
}

/** Writes one chunk (RFC 9112 §7.1); false when the socket's buffer is full. */
function writeChunk(socket: Socket, bytes: Buffer, tail: Buffer): boolean {
  const { length } = bytes
  let digits = 1
  for (let rest = length >> 4; rest > 0; rest >>= 4) digits++
  const copied = length <= copiedBytes
  const frame = Buffer.allocUnsafe(digits + 2 + (copied ? length + tail.length : 0))
  for (let at = digits - 1, rest = length; at >= 0; at--, rest >>= 4) frame[at] = hexDigits[rest & 15]!
  frame[digits] = 13
  frame[digits + 1] = 10
  if (copied) {
    bytes.copy(frame, digits + 2)
    tail.copy(frame, digits + 2 + length)
    return socket.write(frame)
  }
  socket.cork()
  socket.write(frame)
  socket.write(bytes)
  const flowing = socket.write(tail)
  socket.uncork()
  return flowing
}
