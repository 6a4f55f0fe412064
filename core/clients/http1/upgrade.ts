// A WebSocket handshake on an HTTP/1.1 connection: refused like any request, or answered with 101 (RFC 6455, section
// 4).
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { Answer } from '../answer.ts'
import type { Front, SocketOffer } from '../client.ts'
import { GatewayError } from '../../errors.ts'
import type { Headers } from '../request-head.ts'
import { handshakeProtocols } from '../handshake.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import type { Inlet } from '../inlet.ts'
import { FrameSocket } from '../../wire/frame-socket.ts'
import { renderHead } from '../../wire/response-head.ts'
import type { HeaderLines } from '../../wire/response-head.ts'

const keyPattern = /^[+/0-9A-Za-z]{22}==$/
/** The value to append to the client's key (RFC 6455 §1.3). */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** How long a client may take to close its side after it was refused. */
const lingerMs = 1000

/** Opens a WebSocket or refuses it. The connection is used for nothing else afterwards. */
export class Upgrade extends Answer implements SocketOffer {
  readonly subprotocols: readonly string[]
  readonly #front: Front
  readonly #inlet: Inlet | undefined
  readonly #socket: Socket
  readonly #head: Buffer
  readonly #key: string
  readonly #closed = (): void => this.lost()

  /**
   * `socket`: paused, and owned by this object from now on. `head`: the bytes that were read after the request.
   * `inlet`: what reads the socket, if it is not the socket itself; it has handed the socket over.
   * @throws GatewayError `invalid_request` for an invalid handshake
   */
  constructor(front: Front, headers: Headers, socket: Socket, head: Buffer, inlet?: Inlet) {
    const subprotocols = handshakeProtocols(headers)
    const key = headers['sec-websocket-key']
    if (typeof key !== 'string' || !keyPattern.test(key))
      throw new GatewayError('invalid_request', 'The header Sec-WebSocket-Key is missing or invalid.')
    super(front)
    this.subprotocols = subprotocols
    this.#front = front
    this.#inlet = inlet
    this.#socket = socket
    this.#head = head
    this.#key = key
    socket.on('close', this.#closed)
  }

  accept(headers: HeaderLines, subprotocol: string | undefined, maxMessage: number): FrameSocket {
    const socket = this.#socket
    const accept = createHash('sha1')
      .update(this.#key + guid)
      .digest('base64')
    this.headSent = this.over = true
    socket.off('close', this.#closed)
    socket.on('close', () => this.#front.ended())
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
        `${subprotocol === undefined ? '' : `Sec-WebSocket-Protocol: ${subprotocol}\r\n`}${headers.text}\r\n`,
      'latin1'
    )
    const inlet = this.#inlet
    const frames = new FrameSocket(socket, { side: 'server', maxMessage, head: this.#head, fed: inlet !== undefined })
    if (inlet) {
      inlet.feed(frames)
      socket.pause()
    }
    return frames
  }

  reply(status: number, headers: HeaderLines, body: Buffer): void {
    if (this.over) return
    this.headSent = true
    this.#end(
      Buffer.concat([Buffer.from(renderHead(status, headers, body.length, 'Connection: close\r\n'), 'latin1'), body])
    )
  }

  head(status: number, headers: HeaderLines): void {
    if (this.over || this.headSent) return
    this.headSent = true
    this.#socket.write(renderHead(status, headers, undefined, 'Connection: close\r\n'), 'latin1')
  }

  write(bytes: Buffer): boolean {
    return this.over || bytes.length === 0 || this.#socket.write(bytes)
  }

  end(bytes: Buffer = Buffer.alloc(0)): void {
    if (!this.over) this.#end(bytes)
  }

  cut(): void {
    if (this.over) return
    this.gone = true
    this.release()
    this.#socket.destroy()
  }

  #end(last: Buffer): void {
    const socket = this.#socket
    this.release()
    const destroy = (): void => void socket.destroy()
    const stalls = new Deadline(this.#front.clientStall, destroy)
    let lingers: NodeJS.Timeout | undefined
    // Unread bytes would turn the end into a reset, so what the client still sends is thrown away for a while.
    socket.once('finish', () => {
      stalls.clear()
      lingers = setTimeout(destroy, lingerMs).unref()
    })
    socket.once('close', () => {
      stalls.clear()
      clearTimeout(lingers)
    })
    socket.resume()
    socket.end(last)
  }
}
