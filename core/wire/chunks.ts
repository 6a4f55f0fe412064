// Takes the chunks off a body (RFC 9112 §7.1): of answers, and of requests.
import { Malformed } from './malformed.ts'
import { Section } from './section.ts'
import { token } from './grammar.ts'

/** Of a trailer section, which is dropped. */
export const maxTrailerBytes = 8 * 1024
/** Of one chunk's extensions, which are skipped, and of all in one body. */
export const maxExtensionBytes = 1024
export const maxExtensionsBytes = 16 * 1024

const atSize = 0
const inExtension = 1
const afterSize = 2
const inChunk = 3
const afterChunk = 4
const beforeSize = 5
const atTrailer = 6
const atEnd = 7

const lf = 0x0a
const cr = 0x0d
const semicolon = 0x3b
/** More than this times 16 is no exact number any more. */
const maxSize = Math.floor(Number.MAX_SAFE_INTEGER / 16) - 1
/**
 * After the first semicolon. Values in quotes are refused: nobody sends them, and they would need a parser of their
 * own.
 */
const extensionPattern = new RegExp(`^${token}(=${token})?(;${token}(=${token})?)*$`)
/** A whole trailer section whose lines are fields, by their names. */
const trailerPattern = new RegExp(`^(?:${token}:[^\\r]*\\r\\n)*\\r\\n$`)
const framingPattern = /^(?:content-length|transfer-encoding):/im

/** One body after another. What a read brought of one is moved together in the buffer it was read into. */
export class ChunkDecoder {
  /** Where in the bytes of the latest read its part of the body is; empty when the two are equal. */
  from = 0
  to = 0
  #state = atSize
  /** Bytes still to come of a chunk. */
  #left = 0
  /** The present chunk's size line. */
  #size = 0
  #digits = 0
  #extension = ''
  #extensions = 0
  #trailer: Section | undefined

  /** Makes ready for the next body. */
  begin(): void {
    this.#extensions = 0
    this.#expectSize()
  }

  /** The body is whole. */
  get ended(): boolean {
    return this.#state === atEnd
  }

  /**
   * Takes `bytes` from `at` to `length`, which may be changed by it, and returns the position after what belongs to the
   * body.
   * @throws Malformed
   */
  read(bytes: Buffer, at: number, length: number): number {
    this.from = this.to = 0
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
        if (byte !== cr) throw new Malformed('a chunk is longer than its size')
        this.#state = beforeSize
      } else {
        if (byte !== lf) throw new Malformed('a carriage return without a line feed')
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
      if (this.#size > maxSize || ++this.#digits > 16) throw new Malformed('a chunk is too large')
      this.#size = this.#size * 16 + digit
    } else if (this.#digits === 0) throw new Malformed('a chunk without a size')
    else if (byte === cr) this.#state = afterSize
    else if (byte === semicolon) this.#state = inExtension
    else throw new Malformed('an invalid chunk size')
  }

  /** Extensions are hardly ever sent: looked at as text, and forgotten. */
  #readExtension(byte: number): void {
    if (byte !== cr) {
      if (this.#extension.length === maxExtensionBytes || ++this.#extensions > maxExtensionsBytes)
        throw new Malformed('chunk extensions are too long', 'extensions')
      this.#extension += String.fromCharCode(byte)
    } else if (extensionPattern.test(this.#extension)) this.#state = afterSize
    else throw new Malformed('an invalid chunk extension')
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
    const trailer = (this.#trailer ??= new Section(maxTrailerBytes))
    const end = trailer.read(bytes, at, length)
    if (end === -1) return length
    if (!trailerPattern.test(trailer.text)) throw new Malformed('a line among the trailers is no field')
    if (framingPattern.test(trailer.text)) throw new Malformed('a trailer that would change where the body ends')
    this.#state = atEnd
    return end
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
