// Decodes chunked bodies of requests and answers (RFC 9112 §7.1).
import { Malformed } from './malformed.ts'
import { Section } from './section.ts'
import { token } from './grammar.ts'

/** The most bytes of a trailer section. Trailers are dropped. */
export const maxTrailerBytes = 8 * 1024
/** The most bytes of the extensions of one chunk, and of one body. Extensions are skipped. */
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
/** A larger value times 16 would not be an exact number. */
const maxSize = Math.floor(Number.MAX_SAFE_INTEGER / 16) - 1
/**
 * The extensions after the first semicolon. Quoted values are refused: no known client or server sends them, and they
 * would need a parser of their own.
 */
const extensionPattern = new RegExp(`^${token}(=${token})?(;${token}(=${token})?)*$`)
/** A whole trailer section in which every line has a valid field name. */
const trailerPattern = new RegExp(`^(?:${token}:[^\\r]*\\r\\n)*\\r\\n$`)
const framingPattern = /^(?:content-length|transfer-encoding):/im

/**
 * Decodes one body after another. The parts of a body in one read are moved together in the buffer that was read into.
 */
export class ChunkDecoder {
  /** The part of the latest read that belongs to the body; empty when the two are equal. */
  from = 0
  to = 0
  #state = atSize
  /** The bytes that the current chunk still lacks. */
  #left = 0
  /** The size line of the current chunk. */
  #size = 0
  #digits = 0
  #extension = ''
  #extensions = 0
  #trailer: Section | undefined

  /** Prepares for the next body. */
  begin(): void {
    this.#extensions = 0
    this.#expectSize()
  }

  /** Whether the body is complete. */
  get ended(): boolean {
    return this.#state === atEnd
  }

  /**
   * Reads `bytes` from `at` to `length`, and may change them. Returns the position after the part that belongs to the
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

  /** Extensions are rare: they are checked as text, and dropped. */
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
