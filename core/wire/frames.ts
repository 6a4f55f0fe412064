// Reads and writes the frames of WebSockets (RFC 6455 §5) in bytes that come in any pieces.
import { isUtf8 } from 'node:buffer'
import { freshMask, noMask, unmask } from './mask.ts'
import { outgoingBytes } from './outgoing.ts'

/** The kinds of frames (RFC 6455 §5.2). */
export const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

/** The most fragments of one message. */
const maxFragments = 4096
/** The longest payload of a control frame, and the longest whose length is in the second byte of any frame. */
const controlBytes = 125
/** As much memory as is taken before any of a message has come, in bytes. */
const firstBytes = 64 * 1024
/** The longest head of a frame, with its mask. */
const mostHeadBytes = 14
/** Payloads up to this size are written in one piece with their head, in bytes. */
export const oneWriteBytes = outgoingBytes - mostHeadBytes
const none = Buffer.alloc(0)

/** Close codes (RFC 6455 §7.4.1). */
const protocolError = 1002
const noUtf8 = 1007
const policy = 1008
const tooLarge = 1009

/** What a peer sent is no WebSocket, or more than may be sent. */
export class FrameFault extends Error {
  /** The close code that tells the peer. */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Takes what has been read, in the order in which it came. */
export interface FrameSink {
  /** A whole message. Its bytes are the callee's. */
  message(data: Buffer, binary: boolean): void
  /** `opcode`: close, ping or pong. The payload is the callee's. */
  control(opcode: number, payload: Buffer): void
}

/** Reads the frames of one peer. After a fault, or a close frame, nothing more is read. */
export class FrameReader {
  readonly #masked: boolean
  readonly #maxMessage: number
  readonly #sink: FrameSink
  /** The beginning of a head whose rest has not come. */
  #cut = none
  #opcode = 0
  #last = false
  #mask = noMask
  /** The payload of the present frame: how much of it has come, and is still to come. Undefined between frames. */
  #come = 0
  #left: number | undefined
  /** The payload of a control frame. */
  #control = none
  /** The opcode of the message that has begun; 0 between messages. */
  #kind = 0
  /** Where the message is put together, how much of it has come, and how much its frames have announced. */
  #text = none
  #length = 0
  #announced = 0
  #fragments = 0
  #over = false
  #stopped = false

  /** `masked`: whether the peer is a client, which masks what it sends. `maxMessage`: in bytes. */
  constructor(masked: boolean, maxMessage: number, sink: FrameSink) {
    this.#masked = masked
    this.#maxMessage = maxMessage
    this.#sink = sink
  }

  /**
   * Reads on. The bytes are used during the call only. Returns how many were read: all of them, unless {@link stop} was
   * called; the next call begins with the others.
   * @throws FrameFault
   */
  read(bytes: Buffer): number {
    let at = 0
    const { length: before } = this.#cut
    if (before > 0) {
      bytes = Buffer.concat([this.#cut, bytes])
      this.#cut = none
    }
    this.#stopped = false
    while (at < bytes.length && !this.#over && !this.#stopped) {
      if (this.#left === undefined) {
        at = this.#begin(bytes, at)
      }
      const left: number | undefined = this.#left
      if (left === undefined) break
      const end = Math.min(at + left, bytes.length)
      if (end > at) this.#take(bytes, at, end)
      this.#left = left - (end - at)
      at = end
      if (this.#left === 0) this.#end()
    }
    return (this.#over ? bytes.length : at) - before
  }

  /** Has nothing more read by the present call than the present frame. */
  stop(): void {
    this.#stopped = true
  }

  /** Reads the head of a frame, and returns the place behind it. One that is cut is kept. */
  #begin(bytes: Buffer, at: number): number {
    const [first, second] = [bytes[at]!, bytes[at + 1]]
    if (second === undefined) return this.#keep(bytes, at)
    const opcode = first & 15
    const last = first > 127
    const short = second & 127
    if ((first & 0x70) !== 0) throw new FrameFault(protocolError, 'a reserved bit is set')
    if (opcode > opcodes.binary) {
      if (opcode < opcodes.close || opcode > opcodes.pong) throw new FrameFault(protocolError, `the opcode ${opcode}`)
      if (!last) throw new FrameFault(protocolError, 'a control frame in fragments')
      if (short > controlBytes || (opcode === opcodes.close && short === 1))
        throw new FrameFault(protocolError, 'a control frame of a wrong length')
    } else if ((opcode === opcodes.continuation) !== (this.#kind !== 0))
      throw new FrameFault(protocolError, 'a fragment of no message, or a message in another one')
    if (second > 127 !== this.#masked) throw new FrameFault(protocolError, 'a mask that is missing, or too many')
    const size = short === 126 ? 2 : short === 127 ? 8 : 0
    const body = at + 2 + size + (this.#masked ? 4 : 0)
    if (body > bytes.length) return this.#keep(bytes, at)
    const length = size === 0 ? short : size === 2 ? bytes.readUInt16BE(at + 2) : longLength(bytes, at + 2)
    this.#mask = this.#masked ? bytes.readUInt32BE(body - 4) : noMask
    this.#opcode = opcode
    this.#last = last
    this.#come = 0
    this.#left = length
    if (opcode > opcodes.binary) this.#control = length === 0 ? none : Buffer.allocUnsafe(length)
    else this.#announce(opcode, length)
    return body
  }

  #keep(bytes: Buffer, at: number): number {
    this.#cut = Buffer.from(bytes.subarray(at))
    return bytes.length
  }

  #announce(opcode: number, length: number): void {
    if (opcode !== opcodes.continuation) this.#kind = opcode
    this.#announced += length
    if (this.#announced > this.#maxMessage)
      throw new FrameFault(tooLarge, `a message of more than ${this.#maxMessage} bytes`)
    if (++this.#fragments > maxFragments)
      throw new FrameFault(policy, `a message in more than ${maxFragments} fragments`)
  }

  /** Takes a part of the payload. */
  #take(bytes: Buffer, from: number, to: number): void {
    const control = this.#opcode > opcodes.binary
    const target = control ? this.#control : this.#room(to - from)
    const at = control ? this.#come : this.#length
    bytes.copy(target, at, from, to)
    if (this.#mask !== noMask) unmask(target, at, at + to - from, this.#mask, this.#come)
    this.#come += to - from
    if (!control) this.#length += to - from
  }

  /** Memory for the message so far and so many more bytes: exactly enough, or at most twice as much as has come. */
  #room(more: number): Buffer {
    const needed = this.#length + more
    const text = this.#text
    if (needed <= text.length) return text
    const whole = this.#last && needed === this.#announced
    const size = whole ? needed : Math.max(needed, Math.min(this.#announced, Math.max(2 * needed, firstBytes)))
    const grown = Buffer.allocUnsafe(size)
    text.copy(grown, 0, 0, this.#length)
    return (this.#text = grown)
  }

  #end(): void {
    this.#left = undefined
    if (this.#opcode > opcodes.binary) {
      const control = this.#control
      this.#control = none
      if (this.#opcode === opcodes.close) this.#over = true
      return this.#sink.control(this.#opcode, control)
    }
    if (!this.#last) return
    const length = this.#length
    const data = length === this.#text.length ? this.#text : this.#text.subarray(0, length)
    const binary = this.#kind === opcodes.binary
    this.#text = none
    this.#kind = this.#length = this.#announced = this.#fragments = 0
    if (!binary && !isUtf8(data)) throw new FrameFault(noUtf8, 'a text that is no UTF-8')
    this.#sink.message(data, binary)
  }
}

/** Of 64 bits. One that no number can hold is more than any message may have. */
function longLength(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * 2 ** 32 + bytes.readUInt32BE(at + 4)
}

/**
 * The bytes of a frame with a whole message or a control frame, in one or two pieces. `masked`: as clients send it.
 * `room` gives memory for the piece that is made.
 */
export function frameOf(
  opcode: number,
  payload: Buffer,
  masked: boolean,
  room: (length: number) => Buffer = Buffer.allocUnsafe
): readonly Buffer[] {
  const { length } = payload
  const size = length <= controlBytes ? 0 : length < 65536 ? 2 : 8
  const body = 2 + size + (masked ? 4 : 0)
  const joined = masked || length <= oneWriteBytes
  const frame = room(joined ? body + length : body)
  const bit = masked ? 0x80 : 0
  frame[0] = 0x80 | opcode
  frame[1] = bit | (size === 0 ? length : size === 2 ? 126 : 127)
  if (size === 2) frame.writeUInt16BE(length, 2)
  else if (size === 8) {
    frame.writeUInt32BE(Math.floor(length / 2 ** 32), 2)
    frame.writeUInt32BE(length >>> 0, 6)
  }
  if (!joined) return [frame, payload]
  payload.copy(frame, body)
  if (masked) {
    const mask = freshMask()
    frame.writeUInt32BE(mask, body - 4)
    unmask(frame, body, body + length, mask, 0)
  }
  return [frame]
}

/**
 * What a close frame says: its code, undefined without one, and its reason.
 * @throws FrameFault
 */
export function readClose(payload: Buffer): { code: number | undefined; reason: string } {
  if (payload.length === 0) return { code: undefined, reason: '' }
  const code = payload.readUInt16BE(0)
  const reason = payload.subarray(2)
  if (!isCloseCode(code)) throw new FrameFault(protocolError, `the close code ${code}`)
  if (!isUtf8(reason)) throw new FrameFault(noUtf8, 'a reason that is no UTF-8')
  return { code, reason: reason.toString('utf8') }
}

/** The payload of a close frame. */
export function closePayload(code: number | undefined, reason = ''): Buffer {
  if (code === undefined) return none
  const payload = Buffer.allocUnsafe(2 + Buffer.byteLength(reason))
  payload.writeUInt16BE(code, 0)
  payload.write(reason, 2, 'utf8')
  return payload
}

/** Whether a close frame may carry the code (RFC 6455 §7.4, and IANA's registry). */
export function isCloseCode(code: number): boolean {
  return (
    (code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006) || (code >= 3000 && code <= 4999)
  )
}
