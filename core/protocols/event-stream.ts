// Cuts bytes into the binary messages of AWS's event stream encoding, and checks both of their checksums.
// https://smithy.io/2.0/aws/amazon-eventstream.html
import { crc32 } from 'node:zlib'
import { BrokenStream } from './protocol.ts'
import type { EventCutter } from './protocol.ts'

/** The media type of such streams. */
export const eventStreamType = 'application/vnd.amazon.eventstream'

/** Total length, length of the headers, and the checksum of both, before the headers; a checksum after the payload. */
const prelude = 12
const trailer = 4
/** The largest message, and the most bytes of its headers. */
const mostBytes = 16 * 1024 * 1024
const mostHeaders = 128 * 1024

/** Bytes of a value by its type; those of 6 (bytes) and 7 (text) have their length before them. */
const sizes = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16] as const
const bytesType = 6
const textType = 7

/** `exception`: a failure that the service describes in its payload. `error`: any other, with a code and words. */
export type FrameKind = 'event' | 'exception' | 'error'

/** What the headers of a message say. */
interface FrameHead {
  readonly kind: FrameKind
  /** The type of the event or of the exception, or the code of the error. */
  readonly name: string
  /** The words of an error. */
  readonly said: string
}

/** One message. The payload is a view of the bytes that came. */
export interface Frame extends FrameHead {
  readonly payload: Buffer
}

/** Takes bytes as they arrive, and hands out whole messages. What cannot be trusted ends the stream. */
export class EventStream implements EventCutter {
  readonly #emit: (frame: Frame) => void
  /** The message that has begun, and how much of it there is; at first room for a prelude, then for all of it. */
  #pending = Buffer.alloc(0)
  #length = 0
  /** The last headers, and what they say: nearly all that follow are the same. */
  #headers = Buffer.alloc(0)
  #head: FrameHead | undefined

  /** `emit` is called during `push`, in order. */
  constructor(emit: (frame: Frame) => void) {
    this.#emit = emit
  }

  get begun(): boolean {
    return this.#length > 0
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      // Most messages arrive in one piece, and are not copied.
      if (this.#length === 0 && chunk.length - at >= prelude) {
        const total = lengthOf(chunk, at)
        if (chunk.length - at >= total) {
          this.#take(chunk.subarray(at, at + total))
          at += total
          continue
        }
        this.#pending = Buffer.allocUnsafe(total)
      } else if (this.#length === 0) this.#pending = Buffer.allocUnsafe(prelude)
      at += this.#fill(chunk, at)
    }
  }

  close(): void {
    if (this.begun) throw new BrokenStream('The upstream ended its answer within a message.')
  }

  /** Adds to the message that has begun. Returns how many bytes it took. */
  #fill(chunk: Buffer, at: number): number {
    const taken = chunk.copy(this.#pending, this.#length, at)
    this.#length += taken
    if (this.#length < this.#pending.length) return taken
    const whole = this.#pending
    const total = lengthOf(whole, 0)
    if (whole.length < total) {
      this.#pending = Buffer.allocUnsafe(total)
      whole.copy(this.#pending)
      return taken
    }
    this.#length = 0
    this.#pending = Buffer.alloc(0)
    this.#take(whole)
    return taken
  }

  #take(message: Buffer): void {
    const end = message.length - trailer
    // The checksum goes on from that of the prelude, which has been checked.
    const checksum = crc32(message.subarray(prelude - trailer, end), message.readUInt32BE(prelude - trailer))
    if (checksum !== message.readUInt32BE(end)) throw broken('a message with a wrong checksum')
    const payloadAt = prelude + message.readUInt32BE(4)
    this.#emit({ ...this.#read(message.subarray(prelude, payloadAt)), payload: message.subarray(payloadAt, end) })
  }

  #read(headers: Buffer): FrameHead {
    if (this.#head && headers.equals(this.#headers)) return this.#head
    this.#head = readHead(headers)
    this.#headers = Buffer.from(headers)
    return this.#head
  }
}

/** The total length of the message whose prelude is at `at`. */
function lengthOf(bytes: Buffer, at: number): number {
  const total = bytes.readUInt32BE(at)
  const headers = bytes.readUInt32BE(at + 4)
  // A length is believed only when its checksum holds.
  if (crc32(bytes.subarray(at, at + prelude - trailer)) !== bytes.readUInt32BE(at + prelude - trailer))
    throw broken('the beginning of a message with a wrong checksum')
  if (total > mostBytes || headers > mostHeaders || total < prelude + headers + trailer)
    throw broken('a message of a length that is not allowed')
  return total
}

function readHead(headers: Buffer): FrameHead {
  const texts = new Map<string, string>()
  let at = 0
  const take = (length: number): number => {
    const from = at
    at += length
    if (at > headers.length) throw broken('a message with headers that are cut')
    return from
  }
  while (at < headers.length) {
    const nameLength = headers[take(1)]!
    const from = take(nameLength)
    const name = headers.toString('utf8', from, at)
    const type = headers[take(1)]!
    if (type >= sizes.length) throw broken('a message with a header of an unknown type')
    if (type === bytesType || type === textType) {
      const length = headers.readUInt16BE(take(2))
      const value = take(length)
      if (type === textType) texts.set(name, headers.toString('utf8', value, at))
    } else take(sizes[type]!)
  }
  const kind = texts.get(':message-type')
  switch (kind) {
    case 'event':
      return { kind, name: texts.get(':event-type') ?? '', said: '' }
    case 'exception':
      return { kind, name: texts.get(':exception-type') ?? '', said: '' }
    case 'error':
      return { kind, name: texts.get(':error-code') ?? '', said: texts.get(':error-message') ?? '' }
    default:
      throw broken('a message of an unknown kind')
  }
}

function broken(what: string): BrokenStream {
  return new BrokenStream(`The upstream sent ${what}.`)
}
