// The handshake of a WebSocket to an upstream, in HTTP/1.1 (RFC 6455 §4.1).
import { createHash, randomBytes } from 'node:crypto'
import type { OnReadOpts, Socket } from 'node:net'
import type { Channel } from '../../catalogue/catalogue.ts'
import { FrameSocket } from '../../wire/frame-socket.ts'
import { field, targetOf } from '../http1/channel-head.ts'
import { BadResponse } from '../failure.ts'
import { ResponseParser } from '../http1/response-parser.ts'
import type { SocketRequest, UpstreamHeaders, UpstreamRefusal } from '../transport.ts'

/** The most bytes of the body of a refusal that are read. */
const mostRefusalBytes = 64 * 1024
/** What the key is hashed with (RFC 6455 §1.3). */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** The memory that all sockets read into. Each read is processed before the next one can happen. */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

/** Reads a connection into memory that is used again, for whoever takes the bytes at the time. */
export class Reading {
  /** Gets what is read. The bytes are valid during the call only. */
  taker: { input(bytes: Buffer): void } | undefined
  readonly onread: OnReadOpts = {
    buffer: () => shared,
    callback: (length, { buffer, byteOffset }) => {
      this.taker?.input(Buffer.from(buffer, byteOffset, length))
      return true
    }
  }
}

/** One handshake on a connection that is open. */
export class Handshake {
  /**
   * The WebSocket, or the refusal of the upstream, whose connection is closed. It rejects when the connection ends
   * before there is an answer, or with {@link BadResponse} for none that is valid.
   */
  readonly answer: Promise<FrameSocket | UpstreamRefusal>
  readonly #stream: Socket
  readonly #reading: Reading | undefined
  readonly #maxMessage: number
  readonly #key = randomBytes(16).toString('base64')
  readonly #parser = new ResponseParser()
  readonly #settled = Promise.withResolvers<FrameSocket | UpstreamRefusal>()
  /** The body of a refusal. */
  readonly #pieces: Buffer[] = []
  #size = 0
  readonly #onData = (bytes: Buffer): void => this.input(bytes)
  readonly #onError = (cause: Error): void => this.#ended(cause)
  readonly #onEnd = (): void => this.#ended(new Error('the upstream closed the connection'))

  /** Sends the request. `reading`: what reads the stream, if it is not the stream itself. */
  constructor(channel: Channel, request: SocketRequest, stream: Socket, reading: Reading | undefined) {
    this.#stream = stream
    this.#reading = reading
    this.#maxMessage = request.maxMessage
    this.answer = this.#settled.promise
    this.#parser.begin(true)
    stream.on('error', this.#onError).on('end', this.#onEnd).on('close', this.#onEnd)
    if (reading) reading.taker = this
    else stream.on('data', this.#onData)
    try {
      stream.write(this.#request(channel, request), 'latin1')
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  /** Takes what the stream has read. */
  input(bytes: Buffer): void {
    const parser = this.#parser
    parser.push(bytes, bytes.length)
    const { head, fault } = parser
    if (fault) return this.#fail(fault)
    if (head?.status === 101) return this.#accept(head.headers, bytes.subarray(bytes.length - parser.excess))
    if (parser.to > parser.from) {
      this.#pieces.push(Buffer.from(bytes.subarray(parser.from, parser.to)))
      this.#size += parser.to - parser.from
    }
    if (parser.ended || this.#size >= mostRefusalBytes) this.#refused()
  }

  #request(channel: Channel, { path, headers }: SocketRequest): string {
    const fields = { 'user-agent': 'sluice', ...channel.headers, ...headers }
    return (
      `GET ${targetOf(channel, path)} HTTP/1.1\r\nhost: ${channel.baseUrl.host}\r\n` +
      `connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${this.#key}\r\n` +
      `${Object.entries(fields)
        .map(([name, value]) => field(name, value))
        .join('')}\r\n`
    )
  }

  #accept(headers: UpstreamHeaders, rest: Buffer): void {
    const accept = createHash('sha1')
      .update(this.#key + guid)
      .digest('base64')
    const isUpgrade = String(headers['connection'])
      .split(',')
      .some((option) => option.trim().toLowerCase() === 'upgrade')
    const isWebSocket = isUpgrade && String(headers['upgrade']).toLowerCase() === 'websocket'
    if (!isWebSocket || headers['sec-websocket-accept'] !== accept)
      return this.#fail(new BadResponse('the handshake was answered wrongly'))
    // Nothing of the kind was offered.
    for (const name of ['sec-websocket-protocol', 'sec-websocket-extensions'])
      if (headers[name] !== undefined) return this.#fail(new BadResponse(`${name}, which nobody asked for`))
    this.#leave()
    const reading = this.#reading
    const socket = new FrameSocket(this.#stream, {
      side: 'client',
      maxMessage: this.#maxMessage,
      head: Buffer.from(rest),
      fed: reading !== undefined
    })
    if (reading) reading.taker = socket
    this.#settled.resolve(socket)
  }

  #refused(): void {
    const { status, headers } = this.#parser.head!
    this.#discard()
    this.#settled.resolve({ status, headers, body: Buffer.concat(this.#pieces).subarray(0, mostRefusalBytes) })
  }

  /** The status is enough where the body is cut, or does not come in time. */
  #ended(cause: Error): void {
    if (this.#parser.head) this.#refused()
    else this.#fail(cause)
  }

  #fail(cause: Error): void {
    this.#discard()
    this.#settled.reject(cause)
  }

  #discard(): void {
    this.#leave()
    // What goes wrong from now on is nobody's.
    this.#stream.on('error', ignore).destroy()
  }

  #leave(): void {
    if (this.#reading) this.#reading.taker = undefined
    this.#stream.off('error', this.#onError).off('end', this.#onEnd).off('close', this.#onEnd).off('data', this.#onData)
  }
}

function ignore(): void {}
