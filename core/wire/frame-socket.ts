// One end of a realtime connection: whole messages over WebSocket (RFC 6455), held back by whoever takes them.
import type { Duplex } from 'node:stream'
import WebSocket from 'ws'

/** Fragments of one message, and pieces in which it may have come off the network: each costs memory of its own. */
const maxFragments = 4096
const maxBufferedChunks = 16_384
/** Pings that may wait to be answered by one that does not read. */
const maxPendingAutoPongs = 16
/** Milliseconds that the other side has to answer a close frame, and to close. */
const closeTimeout = 2000
/** Bytes of UTF-8 (RFC 6455 §5.5: a control frame has 125). */
const longestReason = 123

/**
 * Of a close frame that had none, and of a connection that ended without one (RFC 6455 §7.4.1). Neither may be sent.
 */
export const noCode = 1005
export const lostCode = 1006

/** How a connection came to its end. */
export interface Closing {
  /** What the other side said, or {@link noCode} or {@link lostCode}. */
  code: number
  reason: string
  /** What it sent that is no WebSocket, or too large. It has been told so. */
  fault: Error | undefined
}

/** Who takes what an end receives. Calls come one at a time; none after `closed`. */
export interface FrameTaker {
  /** So many bytes have come, in which frames may begin, go on and end. Comes before what they end. */
  received(bytes: number): void
  /** A whole message; the bytes are the taker's. */
  frame(data: Buffer, binary: boolean): void
  /** What was sent is on its way: there is room again. */
  drained(): void
  /** Once. */
  closed(closing: Closing): void
}

/** Options of either side. `maxMessage`: bytes; a larger one ends the connection with 1009. */
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

/** The side of the library that takes a connection whose handshake was made by others. Its types leave it out. */
interface Adopting {
  setSocket(stream: Duplex, head: Buffer, options: object): void
}

const text = { binary: false, compress: false }
const binary = { binary: true, compress: false }

/** Reads nothing before it is taken. */
export class FrameSocket {
  /** When the other side was heard of last: a message, or the answer to a ping. `performance.now()`. */
  heardAt = performance.now()
  readonly #socket: WebSocket
  readonly #stream: Duplex
  #taker: FrameTaker | undefined
  #fault: Error | undefined
  #closing: Closing | undefined
  #pinged = false

  /** A connection that is open. `stream`: what lies below it. */
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
    // Before the library, whose listener is there already.
    stream.prependListener('data', (chunk: Buffer) => this.#taker?.received(chunk.length))
    stream.on('drain', () => this.#taker?.drained())
  }

  /** The server's end of a stream of bytes on which the handshake was made. `head`: what was read of it already. */
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

  /** From now on what is received goes to the taker. */
  take(taker: FrameTaker): void {
    this.#taker = taker
    if (this.#closing) return taker.closed(this.#closing)
    this.#socket.resume()
  }

  /** False: its buffer is full, send no more until it has drained. Does nothing when it is closing. */
  send(data: Buffer, isBinary: boolean): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return true
    this.#socket.send(data, isBinary ? binary : text)
    return !this.#stream.writableNeedDrain
  }

  /** No answer to the last ping has come. */
  get isPinged(): boolean {
    return this.#pinged
  }

  ping(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    this.#pinged = true
    this.#socket.ping()
  }

  /** Stops reading; some messages may still come. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /**
   * Begins to close, unless that has begun; what was sent before still arrives. Without a code when it is none that may
   * be sent.
   */
  close(code: number, reason = ''): void {
    this.#taker = undefined
    // What still comes is thrown away, and so is read: the answer to the close frame is behind it.
    this.#socket.resume()
    if (this.#stream.destroyed) return this.#socket.terminate()
    if (isSendable(code)) this.#socket.close(code, shortened(reason))
    else this.#socket.close()
  }

  /** Closes at once and without a word. */
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

/** Whether a code may stand in a close frame (RFC 6455 §7.4). */
function isSendable(code: number): boolean {
  return (
    (code >= 1000 && code <= 1014 && code !== 1004 && code !== noCode && code !== lostCode) ||
    (code >= 3000 && code <= 4999)
  )
}

/** Cut between characters. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= longestReason) return reason
  const bytes = Buffer.from(reason)
  let end = longestReason
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
