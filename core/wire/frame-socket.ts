// One end of a realtime connection: whole messages over WebSocket (RFC 6455), which the receiver can pause.
import type { Duplex } from 'node:stream'
import WebSocket from 'ws'

/**
 * The most fragments of one message, and the most network reads that it may be spread over. Each costs extra memory.
 */
const maxFragments = 4096
const maxBufferedChunks = 16_384
/** The most pings of a peer that wait for their answer because the peer does not read. */
const maxPendingAutoPongs = 16
/** Milliseconds that the other side has to answer a close frame and to close the connection. */
const closeTimeout = 2000
/**
 * The most bytes of UTF-8 in the reason of a close frame: a control frame has 125 bytes (RFC 6455 §5.5), two of them
 * the code.
 */
const longestReason = 123

/**
 * The codes to report when a close frame carried no code, and when a connection ended without a close frame (RFC 6455
 * §7.4.1). Neither may be sent.
 */
export const noCode = 1005
export const lostCode = 1006

/** How a connection ended. */
export interface Closing {
  /** The code that the other side sent, or {@link noCode} or {@link lostCode}. */
  code: number
  reason: string
  /** Set when the other side broke the protocol or sent too large a message. It has been told so. */
  fault: Error | undefined
}

/** Takes what a socket receives. The calls come one at a time; none comes after `closed`. */
export interface FrameTaker {
  /**
   * This many bytes have come. They may contain beginnings, parts and ends of frames; this is called before `frame` for
   * a message that they complete.
   */
  received(bytes: number): void
  /** A whole message. The taker owns its bytes. */
  frame(data: Buffer, binary: boolean): void
  /** The send buffer is empty again. */
  drained(): void
  /** The connection ended. Called once. */
  closed(closing: Closing): void
}

/** The options for either side. `maxMessage`: in bytes; a larger message ends the connection with code 1009. */
export function socketOptions(maxMessage: number): WebSocket.ClientOptions {
  const options = {
    perMessageDeflate: false,
    maxPayload: maxMessage,
    maxFragments,
    maxBufferedChunks,
    maxPendingAutoPongs,
    closeTimeout,
    autoPong: true,
    allowSynchronousEvents: true,
    skipUTF8Validation: false
  }
  return options
}

/** The method of the library that takes over a connection after the handshake. It is missing in the library's types. */
interface Adopting {
  setSocket(stream: Duplex, head: Buffer, options: object): void
}

const text = { binary: false, compress: false }
const binary = { binary: true, compress: false }

/** A WebSocket. It reads nothing before {@link take} is called. */
export class FrameSocket {
  /** When a message or the answer to a ping came last, as `performance.now()`. */
  heardAt = performance.now()
  readonly #socket: WebSocket
  readonly #stream: Duplex
  #taker: FrameTaker | undefined
  #fault: Error | undefined
  #closing: Closing | undefined
  #pinged = false

  /** `socket`: open. `stream`: the stream of bytes below it. */
  constructor(socket: WebSocket, stream: Duplex) {
    this.#socket = socket
    this.#stream = stream
    socket.pause()
    socket.on('message', (data, isBinary) => {
      this.heardAt = performance.now()
      this.#taker?.frame(data as Buffer, isBinary)
    })
    socket.on('pong', () => {
      this.heardAt = performance.now()
      this.#pinged = false
    })
    socket.on('error', (error) => {
      this.#fault = error
      if ('code' in error && String(error.code).startsWith('WS_'))
        this.#close({ code: lostCode, reason: '', fault: error })
    })
    socket.on('close', (code, reason) => this.#close({ code, reason: reason.toString('utf8'), fault: this.#fault }))
    // This listener must run before that of the library, which was added earlier.
    stream.prependListener('data', (chunk: Buffer) => this.#taker?.received(chunk.length))
    stream.on('drain', () => this.#taker?.drained())
  }

  /**
   * The server's end of a stream on which the handshake was made. `head`: the bytes that were read after the handshake.
   */
  static accepted(stream: Duplex, head: Buffer, maxMessage: number): FrameSocket {
    const options = socketOptions(maxMessage)
    const Server = WebSocket as unknown as new (
      address: null,
      protocols: undefined,
      options: object
    ) => WebSocket & Adopting
    const socket = new Server(null, undefined, options)
    socket.setSocket(stream, head, options)
    return new FrameSocket(socket, stream)
  }

  /** From now on, `taker` gets what is received. */
  take(taker: FrameTaker): void {
    this.#taker = taker
    if (this.#closing) return taker.closed(this.#closing)
    this.#socket.resume()
  }

  /** False when the buffer is full: send no more until `drained` is called. Does nothing when the socket is closing. */
  send(data: Buffer, isBinary: boolean): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return true
    this.#socket.send(data, isBinary ? binary : text)
    return !this.#stream.writableNeedDrain
  }

  /** Whether the last ping was not answered yet. */
  get isPinged(): boolean {
    return this.#pinged
  }

  ping(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    this.#pinged = true
    this.#socket.ping()
  }

  /** Stops reading; some messages may still arrive. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /**
   * Begins to close, unless that has begun. What was sent before still arrives. A code that may not be sent is left
   * out.
   */
  close(code: number, reason = ''): void {
    this.#taker = undefined
    // What still comes is read and thrown away, because the answer to the close frame comes after it.
    this.#socket.resume()
    if (this.#stream.destroyed) return this.#socket.terminate()
    if (isSendable(code)) this.#socket.close(code, shortened(reason))
    else this.#socket.close()
  }

  /** Closes at once, without a close frame. */
  destroy(): void {
    this.#taker = undefined
    this.#socket.terminate()
  }

  #close(closing: Closing): void {
    if (this.#closing) return
    this.#closing = closing
    this.#taker?.closed(closing)
  }
}

/** Whether a close frame may carry the code (RFC 6455 §7.4). */
function isSendable(code: number): boolean {
  return (
    (code >= 1000 && code <= 1014 && code !== 1004 && code !== noCode && code !== lostCode) ||
    (code >= 3000 && code <= 4999)
  )
}

/** Cuts the reason to its limit, between two characters. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= longestReason) return reason
  const bytes = Buffer.from(reason)
  let end = longestReason
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
