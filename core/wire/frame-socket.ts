// One end of a realtime connection: whole messages over WebSocket (RFC 6455), which the receiver can pause.
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  closePayload,
  FrameFault,
  frameOf,
  FrameReader,
  isCloseCode,
  oneWriteBytes,
  opcodes,
  readClose
} from './frames.ts'
import type { FrameSink } from './frames.ts'
import { outgoing, writeOutgoing } from './outgoing.ts'

/** Milliseconds that the other side has to answer a close frame and to close the connection. */
const closeTimeout = 2000
/**
 * The most bytes of UTF-8 in the reason of a close frame: a control frame has 125 bytes (RFC 6455 §5.5), two of them
 * the code.
 */
const longestReason = 123
/** The most messages and control frames of one socket that are read in one turn of the event loop. */
const turnFrames = 256
const nothing = Buffer.alloc(0)

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
  /** The connection ended, or the other side has closed it. Called once. */
  closed(closing: Closing): void
}

/** What a WebSocket is made with. */
export interface FrameSocketOptions {
  /** Whose end it is: what clients send is masked. */
  side: 'client' | 'server'
  /** The most bytes of one message. A larger one ends the connection with code 1009. */
  maxMessage: number
  /** The bytes that came behind the handshake. */
  head?: Buffer
  /** Whether somebody else reads the stream, and calls {@link FrameSocket.input}. */
  fed?: boolean
}

/** A WebSocket on a stream on which the handshake was made. It reads nothing before {@link take} is called. */
export class FrameSocket implements FrameSink {
  /** When anything came last, as `performance.now()`. */
  heardAt = performance.now()
  readonly #stream: Duplex
  readonly #masks: boolean
  readonly #reader: FrameReader
  #taker: FrameTaker | undefined
  /** What has come and was not read: nobody takes it yet, the taker has paused, or it is the turn of others. */
  #rest: Buffer
  /** How many more messages and control frames are read in this turn of the event loop, or the next ones. */
  #turn = turnFrames
  #isDue = false
  #paused = true
  #pinged = false
  /** What the other side wants to have back, once there is room for it. */
  #owed: Buffer | undefined
  /** A close frame was sent, after which nothing is; and one has come, or what comes is not read any more. */
  #sent = false
  #heard = false
  #closing: Closing | undefined
  #timer: NodeJS.Timeout | undefined

  /** `stream`: the stream of bytes, which is this socket's from now on. */
  constructor(stream: Duplex, { side, maxMessage, head = nothing, fed = false }: FrameSocketOptions) {
    this.#stream = stream
    this.#masks = side === 'client'
    this.#reader = new FrameReader(side === 'server', maxMessage, this)
    this.#rest = head.length === 0 ? nothing : head
    stream.pause()
    stream.on('error', destroy)
    stream.on('end', () => this.#ended())
    stream.on('close', () => this.#lost())
    stream.on('drain', () => this.#drained())
    if (!fed) stream.on('data', (bytes: Buffer) => this.input(bytes))
  }

  /** From now on, `taker` gets what is received. */
  take(taker: FrameTaker): void {
    this.#taker = taker
    if (this.#closing) return this.#finish(this.#closing)
    if (this.#rest.length > 0) taker.received(this.#rest.length)
    this.resume()
  }

  /** Takes what the stream has read. The bytes are used during the call only. */
  input(bytes: Buffer): void {
    if (this.#heard) return
    this.heardAt = performance.now()
    this.#taker?.received(bytes.length)
    if (this.#paused || this.#isDue) this.#rest = Buffer.concat([this.#rest, bytes])
    else this.#read(bytes)
  }

  /** Called by the reader. */
  message(data: Buffer, binary: boolean): void {
    this.#count()
    this.#taker?.frame(data, binary)
  }

  /** Called by the reader. */
  control(opcode: number, payload: Buffer): void {
    this.#count()
    if (opcode === opcodes.ping) this.#answer(payload)
    else if (opcode === opcodes.pong) this.#pinged = false
    else {
      const { code, reason } = readClose(payload)
      this.#say(code, reason)
      this.#end()
      this.#finish({ code: code ?? noCode, reason, fault: undefined })
    }
  }

  /** False when the buffer is full: send no more until `drained` is called. Does nothing when the socket is closing. */
  send(data: Buffer, isBinary: boolean): boolean {
    if (this.#sent || this.#stream.destroyed) return true
    this.#write(isBinary ? opcodes.binary : opcodes.text, data)
    return !this.#stream.writableNeedDrain
  }

  /** Whether the last ping was not answered yet. */
  get isPinged(): boolean {
    return this.#pinged
  }

  ping(): void {
    if (this.#sent || this.#stream.destroyed) return
    this.#pinged = true
    this.#write(opcodes.ping, nothing)
  }

  /** Stops reading. No message arrives before it is resumed. */
  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.#reader.stop()
    this.#stream.pause()
  }

  /** Reads on: messages arrive again when the caller has returned. */
  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (this.#rest.length > 0) this.#readLater()
    else if (!this.#isDue) this.#stream.resume()
  }

  /**
   * Begins to close, unless that has begun. What was sent before still arrives. A code that may not be sent is left
   * out.
   */
  close(code: number, reason = ''): void {
    this.#taker = undefined
    // What still comes is read and thrown away, because the answer to the close frame comes after it.
    this.resume()
    if (!this.#sent) this.#say(isCloseCode(code) ? code : undefined, shortened(reason))
    if (this.#heard) this.#end()
  }

  /** Closes at once, without a close frame. */
  destroy(): void {
    this.#taker = undefined
    this.#sent = this.#heard = true
    this.#rest = nothing
    this.#stream.destroy()
  }

  /** `isOwn`: the bytes may be kept as they are. */
  #read(bytes: Buffer, isOwn = false): void {
    const stream = this.#stream
    let read: number
    // The answers to many pings are written together.
    stream.cork()
    try {
      read = this.#reader.read(bytes)
    } catch (error) {
      if (!(error instanceof FrameFault)) throw error
      return this.#refuse(error)
    } finally {
      stream.uncork()
    }
    if (this.#heard) return
    if (read < bytes.length) {
      const rest = bytes.subarray(read)
      this.#rest = isOwn ? rest : Buffer.from(rest)
    }
    if (!this.#paused && (this.#turn <= 0 || this.#rest.length > 0)) this.#readLater()
  }

  /** Small messages take a thousand times longer than their bytes: other connections are served between them. */
  #readLater(): void {
    if (this.#isDue) return
    this.#isDue = true
    this.#stream.pause()
    setImmediate(readRest, this)
  }

  /** Reads what has waited for its turn. */
  readRest(): void {
    const rest = this.#rest
    this.#isDue = false
    this.#turn = turnFrames
    if (this.#paused || this.#heard) return
    this.#rest = nothing
    if (rest.length > 0) this.#read(rest, true)
    if (this.#stream.destroyed) this.#lost()
    else if (!this.#paused && !this.#isDue) this.#stream.resume()
  }

  #count(): void {
    if (--this.#turn === 0) this.#reader.stop()
  }

  #write(opcode: number, payload: Buffer): void {
    const stream = this.#stream
    if (stream instanceof Socket && payload.length <= oneWriteBytes) {
      const [frame] = frameOf(opcode, payload, this.#masks, outgoing)
      return void writeOutgoing(stream, frame!)
    }
    const pieces = frameOf(opcode, payload, this.#masks)
    if (pieces.length === 1) return void stream.write(pieces[0]!)
    stream.cork()
    for (const piece of pieces) stream.write(piece)
    stream.uncork()
  }

  /** Sends back what a ping said. While nothing can be sent, only the latest is answered (RFC 6455 §5.5.3). */
  #answer(payload: Buffer): void {
    if (this.#sent || this.#stream.destroyed) return
    if (this.#stream.writableNeedDrain) this.#owed = payload
    else this.#write(opcodes.pong, payload)
  }

  #drained(): void {
    const owed = this.#owed
    this.#owed = undefined
    if (owed) this.#answer(owed)
    this.#taker?.drained()
  }

  /** Sends a close frame, once. The connection is closed in any case some time after it. */
  #say(code: number | undefined, reason = ''): void {
    if (this.#sent) return
    this.#sent = true
    const stream = this.#stream
    if (stream.destroyed) return
    this.#write(opcodes.close, closePayload(code, reason))
    this.#timer ??= setTimeout(() => stream.destroy(), closeTimeout)
  }

  /** Both sides have said all. What comes after it is thrown away. */
  #end(): void {
    const stream = this.#stream
    if (!stream.destroyed && !stream.writableEnded) stream.end()
    stream.resume()
  }

  #refuse(fault: FrameFault): void {
    this.#say(fault.code)
    this.#end()
    this.#finish({ code: lostCode, reason: '', fault })
  }

  /** The other side sends nothing more, and has not said that it would. */
  #ended(): void {
    if (this.#heard) return
    const stream = this.#stream
    this.#sent = true
    if (!stream.writableEnded) stream.end()
    this.#timer ??= setTimeout(() => stream.destroy(), closeTimeout)
  }

  /** The connection is gone. What has come and waits for its turn, or for somebody who takes it, is read first. */
  #lost(): void {
    clearTimeout(this.#timer)
    this.#sent = true
    const isAwaited = this.#taker ? !this.#paused : this.#closing === undefined
    if (this.#rest.length > 0 && isAwaited) return
    this.#finish({ code: lostCode, reason: '', fault: undefined })
  }

  /** Nothing is read any more. The taker is told how the connection ended, once. */
  #finish(closing: Closing): void {
    this.#heard = true
    this.#rest = nothing
    this.#closing ??= closing
    const taker = this.#taker
    this.#taker = undefined
    taker?.closed(this.#closing)
  }
}

function destroy(this: Duplex): void {
  this.destroy()
}

function readRest(socket: FrameSocket): void {
  socket.readRest()
}

/** Cuts the reason to its limit, between two characters. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= longestReason) return reason
  const bytes = Buffer.from(reason)
  let end = longestReason
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
