// Cuts a byte stream into server-sent events, each with the bytes it came in (WHATWG HTML, section 9.2).
import { Message } from '../../contract/message.ts'

const lf = 0x0a
const cr = 0x0d
const colon = 0x3a
const empty = Buffer.alloc(0)
const lineEnd = Buffer.from('\n')
const blankLine = Buffer.from('\n\n')

/**
 * The largest event that is looked into. A larger one is an error: nothing that long is a token or a picture we relay.
 */
export const maxEventBytes = 16 * 1024 * 1024

/** Thrown by {@link EventFramer.push} when an event outgrows {@link maxEventBytes}. */
export class EventTooLarge extends Error {}

/**
 * Takes bytes as they arrive and hands out complete events; an incomplete one waits for its rest. Blocks without a data
 * line (comments, heartbeats) are handed out too, as `comment`, so that joined together the messages are the stream.
 */
export class EventFramer {
  readonly #emit: (event: Message) => void
  /** Bytes of an event that has not ended; grows by doubling, given away with the event. */
  #pending = empty
  #pendingLength = 0
  #atLineStart = true
  /** The chunk before ended with CR: an LF that follows belongs to it. */
  #afterCr = false
  /** Some line with content belongs to the present event. */
  #open = false
  /** The stream has used CR at least once; until then nothing looks for it. */
  #usesCr = false
  #first = true

  /** `emit` is called during `push`, in order. */
  constructor(emit: (event: Message) => void) {
    this.#emit = emit
  }

  /**
   * Takes the next bytes; they must not change afterwards, as events point into them.
   * @throws EventTooLarge
   */
  push(chunk: Buffer): void {
    this.#usesCr ||= chunk.includes(cr)
    const lines = new Lines(chunk, this.#usesCr)
    const length = chunk.length
    let from = 0
    let at = 0
    if (this.#afterCr && length > 0) {
      this.#afterCr = false
      if (chunk[0] === lf) at = 1
    }
    while (at < length) {
      const byte = chunk[at]!
      if (byte !== lf && byte !== cr) {
        this.#open = true
        this.#atLineStart = false
        at = lines.end(at)
        continue
      }
      at++
      if (byte === cr) {
        if (at === length) this.#afterCr = true
        else if (chunk[at] === lf) at++
      }
      if (this.#atLineStart && this.#open) {
        this.#open = false
        this.#finish(chunk, from, at)
        from = at
      }
      this.#atLineStart = true
    }
    if (from < length) this.#append(chunk, from, length)
  }

  /** An event has begun that is more than a comment so far. */
  get begun(): boolean {
    return this.#open && this.#pendingLength > 0 && this.#pending[0] !== colon
  }

  /** The stream is over: what stands there without its blank line is handed out with one. */
  close(): void {
    if (this.#open) this.push(this.#atLineStart && !this.#afterCr ? lineEnd : blankLine)
  }

  #finish(chunk: Buffer, from: number, to: number): void {
    let bytes = chunk.subarray(from, to)
    if (this.#pendingLength > 0) {
      this.#append(chunk, from, to)
      bytes = this.#pending.subarray(0, this.#pendingLength)
      this.#pending = empty
      this.#pendingLength = 0
    }
    const event = readEvent(bytes, this.#first, this.#usesCr)
    this.#first = false
    this.#emit(event)
  }

  #append(chunk: Buffer, from: number, to: number): void {
    const needed = this.#pendingLength + to - from
    if (needed > maxEventBytes) throw new EventTooLarge(`an event is larger than ${maxEventBytes} bytes`)
    if (needed > this.#pending.length) {
      const grown = Buffer.allocUnsafe(this.#pendingLength === 0 ? needed : Math.max(needed, this.#pending.length * 2))
      this.#pending.copy(grown, 0, 0, this.#pendingLength)
      this.#pending = grown
    }
    chunk.copy(this.#pending, this.#pendingLength, from, to)
    this.#pendingLength = needed
  }
}

/**
 * Finds line ends in one buffer, front to back. Remembers the next CR, so that a search for it is not repeated per
 * line.
 */
class Lines {
  readonly #bytes: Buffer
  #nextCr: number

  constructor(bytes: Buffer, usesCr: boolean) {
    this.#bytes = bytes
    this.#nextCr = usesCr ? -1 : bytes.length
  }

  /** The line break at or after `from`, or the end of the bytes. */
  end(from: number): number {
    const found = this.#bytes.indexOf(lf, from)
    const end = found === -1 ? this.#bytes.length : found
    if (this.#nextCr < from) {
      const carriage = this.#bytes.indexOf(cr, from)
      this.#nextCr = carriage === -1 ? this.#bytes.length : carriage
    }
    return Math.min(end, this.#nextCr)
  }
}

/** Reads the fields of one event. `first`: a byte order mark may lead the stream. */
function readEvent(bytes: Buffer, first: boolean, usesCr: boolean): Message {
  const length = bytes.length
  // Nearly every event is `data: {…}\n\n`.
  if (!usesCr && isData(bytes) && bytes.indexOf(lf, 5) === length - 2) {
    return new Message('event', bytes, bytes.subarray(valueStart(bytes, 5), length - 2))
  }
  const lines = new Lines(bytes, usesCr)
  const data: Buffer[] = []
  let event = ''
  let at = first && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  while (at < length) {
    const end = lines.end(at)
    if (end > at && bytes[at] !== colon) {
      const line = bytes.subarray(at, end)
      const split = line.indexOf(colon)
      const name = line.toString('latin1', 0, split === -1 ? line.length : split)
      const value = split === -1 ? empty : line.subarray(valueStart(line, split + 1))
      if (name === 'data') data.push(value)
      else if (name === 'event') event = value.toString('utf8')
    }
    at = end + (bytes[end] === cr && bytes[end + 1] === lf ? 2 : 1)
  }
  return data.length === 0 ? new Message('comment', bytes, empty) : new Message('event', bytes, joinLines(data), event)
}

/** Begins with `data:`. */
function isData(bytes: Buffer): boolean {
  return bytes[0] === 0x64 && bytes[1] === 0x61 && bytes[2] === 0x74 && bytes[3] === 0x61 && bytes[4] === colon
}

/** One space after the colon is not part of the value. */
function valueStart(bytes: Buffer, at: number): number {
  return bytes[at] === 0x20 ? at + 1 : at
}

function joinLines(lines: readonly Buffer[]): Buffer {
  if (lines.length <= 1) return lines[0] ?? empty
  return Buffer.concat(lines.flatMap((line, i) => (i === 0 ? [line] : [lineEnd, line])))
}
