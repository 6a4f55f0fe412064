// Takes the bytes of answers as they are read, in any pieces, and finds heads, bodies and ends in them (RFC 9112).
import { BadResponse } from './failure.ts'
import { token } from './grammar.ts'
import { readFields, readHead } from './answer-head.ts'
import type { AnswerHead } from './answer-head.ts'

/** Of a head, interim ones each for itself, in bytes. */
export const maxHeadBytes = 32 * 1024
/** Of a trailer section, which is dropped. */
export const maxTrailerBytes = 8 * 1024
/** Of one chunk's extensions, which are skipped, and of all in one body. */
export const maxExtensionBytes = 1024
export const maxExtensionsBytes = 16 * 1024
/** Interim answers (1xx) before the one that counts. */
export const maxInterim = 16

const atHead = 0
const inLength = 1
const untilClose = 2
const atSize = 3
const inExtension = 4
const afterSize = 5
const inChunk = 6
const afterChunk = 7
const beforeSize = 8
const atTrailer = 9
const atEnd = 10

const lf = 0x0a
const cr = 0x0d
const tab = 0x09
const semicolon = 0x3b
const statusPrefix = Buffer.from('HTTP/1.')
/** More than this times 16 is no exact number any more. */
const maxSize = Math.floor(Number.MAX_SAFE_INTEGER / 16) - 1
/** After the first semicolon. Values in quotes are refused: nobody sends them, and they would need a parser of their own. */
const extensionPattern = new RegExp(`^${token}(=${token})?(;${token}(=${token})?)*$`)
const none = Buffer.alloc(0)

/**
 * One per connection, for one answer after another. It allocates nothing for a body: what a read brought of it is left in
 * the buffer that was read into, moved together when it came in several chunks.
 */
export class ResponseParser {
  /** The head of the answer; set from the push that completed it. */
  head: AnswerHead | undefined
  /** Where in the bytes of the latest push its part of the body is; empty when the two are equal. */
  from = 0
  to = 0
  /** Bytes of the latest push that came after the end of the answer. */
  excess = 0
  /** The bytes are no answer; all before was. Nothing can be pushed any more. */
  fault: BadResponse | undefined
  #state = atHead
  /** Bytes still to come of a body or chunk. */
  #left = 0
  /** The present chunk's size line. */
  #size = 0
  #digits = 0
  #extension = ''
  #extensions = 0
  #interim = 0
  /** What came of a head or trailer section that is not whole yet; how far it was looked through; where its last line begins. */
  #held = none
  #heldLength = 0
  #scanned = 0
  #line = 0
  #text = ''

  /** Makes ready for the next answer. */
  begin(): void {
    this.head = this.fault = undefined
    this.#state = atHead
    this.#interim = this.#extensions = 0
  }

  /** The answer is whole. */
  get ended(): boolean {
    return this.#state === atEnd
  }

  /** The end of the connection is the proper end of this answer. */
  get endsWithConnection(): boolean {
    return this.#state === untilClose
  }

  /** Takes `bytes` from 0 to `length`, which may be changed by it. Afterwards the fields say what was in them. */
  push(bytes: Buffer, length: number): void {
    this.from = this.to = 0
    try {
      this.excess = length - this.#read(bytes, length)
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error
      this.fault = error
    }
  }

  #read(bytes: Buffer, length: number): number {
    let at = 0
    while (this.#state === atHead) {
      at = this.#section(bytes, at, length, maxHeadBytes)
      if (at === -1) return length
      this.#begun(readHead(this.#text))
    }
    if (this.#state === inLength) return this.#readLength(at, length)
    if (this.#state === untilClose) {
      this.from = at
      this.to = length
      return length
    }
    return this.#state === atEnd ? at : this.#readChunks(bytes, at, length)
  }

  #begun(head: AnswerHead): void {
    const { status, framing } = head
    if (status < 200) {
      if (status === 101) throw new BadResponse('a switch of protocols that nobody asked for')
      if (++this.#interim > maxInterim) throw new BadResponse('too many interim answers')
      return
    }
    this.head = head
    if (framing === 'none') this.#state = atEnd
    else if (framing === 'close') this.#state = untilClose
    else if (framing === 'chunked') this.#expectSize()
    else {
      this.#left = head.length
      this.#state = inLength
    }
  }

  #readLength(at: number, length: number): number {
    const end = Math.min(length, at + this.#left)
    this.from = at
    this.to = end
    this.#left -= end - at
    if (this.#left === 0) this.#state = atEnd
    return end
  }

  /** RFC 9112 §7.1. */
  #readChunks(bytes: Buffer, from: number, length: number): number {
    let at = from
    while (at < length) {
      if (this.#state === inChunk) {
        at = this.#readChunk(bytes, at, length)
        continue
      }
      if (this.#state === atTrailer) return this.#readTrailer(bytes, at, length)
      const byte = bytes[at++]!
      if (this.#state === atSize) this.#readSize(byte)
      else if (this.#state === inExtension) this.#readExtension(byte)
      else if (this.#state === afterChunk) {
        if (byte !== cr) throw new BadResponse('a chunk is longer than its size')
        this.#state = beforeSize
      } else {
        if (byte !== lf) throw new BadResponse('a carriage return without a line feed')
        if (this.#state === beforeSize) this.#expectSize()
        else this.#state = (this.#left = this.#size) === 0 ? atTrailer : inChunk
      }
    }
    return at
  }

  #expectSize(): void {
    this.#size = this.#digits = 0
    this.#extension = ''
    this.#state = atSize
  }

  #readSize(byte: number): void {
    const digit = hexDigit(byte)
    if (digit !== -1) {
      if (this.#size > maxSize || ++this.#digits > 16) throw new BadResponse('a chunk is too large')
      this.#size = this.#size * 16 + digit
    } else if (this.#digits === 0) throw new BadResponse('a chunk without a size')
    else if (byte === cr) this.#state = afterSize
    else if (byte === semicolon) this.#state = inExtension
    else throw new BadResponse('an invalid chunk size')
  }

  /** Extensions are hardly ever sent: looked at as text, and forgotten. */
  #readExtension(byte: number): void {
    if (byte !== cr) {
      if (this.#extension.length === maxExtensionBytes || ++this.#extensions > maxExtensionsBytes) throw new BadResponse('chunk extensions are too long')
      this.#extension += String.fromCharCode(byte)
    } else if (extensionPattern.test(this.#extension)) this.#state = afterSize
    else throw new BadResponse('an invalid chunk extension')
  }

  #readChunk(bytes: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.#left)
    if (this.from === this.to) {
      this.from = at
      this.to = end
    } else {
      bytes.copyWithin(this.to, at, end)
      this.to += end - at
    }
    this.#left -= end - at
    if (this.#left === 0) this.#state = afterChunk
    return end
  }

  #readTrailer(bytes: Buffer, at: number, length: number): number {
    const end = this.#section(bytes, at, length, maxTrailerBytes)
    if (end === -1) return length
    const { 'content-length': size, 'transfer-encoding': coding } = readFields(this.#text, 0)
    if (size !== undefined || coding !== undefined) throw new BadResponse('a trailer that would change where the body ends')
    this.#state = atEnd
    return end
  }

  /**
   * Reads lines up to an empty one, the text of which is put into `#text`. Returns the position after it; -1 when it has
   * not come yet and what is there was put aside.
   */
  #section(bytes: Buffer, at: number, length: number, limit: number): number {
    const before = this.#heldLength
    if (before === 0) {
      const end = this.#scan(bytes, at, length, limit)
      if (end !== -1) this.#text = bytes.toString('latin1', at, end)
      else this.#hold(bytes, at, length)
      return end
    }
    // Not more than could still belong to it: the body may begin in the same read.
    this.#hold(bytes, at, Math.min(length, at + limit + 1 - before))
    const end = this.#scan(this.#held, 0, this.#heldLength, limit)
    if (end === -1) return -1
    this.#text = this.#held.toString('latin1', 0, end)
    this.#held = none
    this.#heldLength = 0
    return at + end - before
  }

  #hold(bytes: Buffer, from: number, to: number): void {
    const needed = this.#heldLength + to - from
    if (needed > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, this.#held.length * 2))
      this.#held.copy(grown, 0, 0, this.#heldLength)
      this.#held = grown
    }
    bytes.copy(this.#held, this.#heldLength, from, to)
    this.#heldLength = needed
  }

  /** The position after the empty line that ends a section which begins at `start`; -1 when it is not there yet. */
  #scan(bytes: Buffer, start: number, end: number, limit: number): number {
    let line = start + this.#line
    for (let i = start + this.#scanned; i < end; i++) {
      const byte = bytes[i]!
      if (!isControl(byte)) continue
      if (byte === cr) {
        if (i + 1 < end && bytes[i + 1] !== lf) throw new BadResponse('a carriage return without a line feed')
      } else if (byte !== lf) throw new BadResponse('a control character in a line')
      else if (i === line || bytes[i - 1] !== cr) throw new BadResponse('a line feed without a carriage return')
      else if (i - 1 === line) {
        if (i + 1 - start > limit) throw new BadResponse('too many header bytes')
        this.#scanned = this.#line = 0
        return i + 1
      } else line = i + 1
    }
    if (end - start > limit) throw new BadResponse('too many header bytes')
    // What is no HTTP at all is found out at once, not when its time is up.
    const prefix = Math.min(end - start, statusPrefix.length)
    if (this.#state === atHead && statusPrefix.compare(bytes, start, start + prefix, 0, prefix) !== 0) throw new BadResponse('the upstream does not speak HTTP/1')
    // A carriage return is looked at again with what follows it.
    this.#scanned = end - start - (bytes[end - 1] === cr ? 1 : 0)
    this.#line = line - start
    return -1
  }
}

/** A control character, tabs excepted. */
function isControl(byte: number): boolean {
  return byte < 0x20 ? byte !== tab : byte === 0x7f
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
