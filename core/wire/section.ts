// Collects the lines of a head or of trailers, up to an empty line, from bytes in any pieces (RFC 9112 §2.2).
import { Malformed } from './malformed.ts'

const lf = 0x0a
const cr = 0x0d
const tab = 0x09
const space = 0x20
const del = 0x7f
const none = Buffer.alloc(0)

/** Reads one section after another. An incomplete one is stored, up to the limit. */
export class Section {
  /**
   * The latest section: latin1 with CRLF at the end of each line, ending with an empty line, and without control
   * characters in its lines except tabs.
   */
  text = ''
  readonly #limit: number
  /** The bytes of an incomplete section, how many of them were scanned, and where its last line begins. */
  #held = none
  #heldLength = 0
  #scanned = 0
  #line = 0

  /** `limit`: the most bytes of a section. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Whether a part of the next section has come. */
  get begun(): boolean {
    return this.#heldLength > 0
  }

  /** Whether the bytes of an incomplete section agree with `prefix`, as far as they go. */
  begins(prefix: Buffer): boolean {
    const length = Math.min(this.#heldLength, prefix.length)
    return prefix.compare(this.#held, 0, length, 0, length) === 0
  }

  /**
   * Reads a section that begins or continues at `at`, in the first `length` bytes. Returns the position after it; -1
   * when it is incomplete, and all bytes were stored.
   * @throws Malformed
   */
  read(bytes: Buffer, at: number, length: number): number {
    const before = this.#heldLength
    if (before === 0) {
      const end = this.#scan(bytes, at, length)
      if (end !== -1) this.text = bytes.toString('latin1', at, end)
      else this.#hold(bytes, at, length)
      return end
    }
    // Stores only what could still belong to the section: a body may begin in the same read.
    this.#hold(bytes, at, Math.min(length, at + this.#limit + 1 - before))
    const end = this.#scan(this.#held, 0, this.#heldLength)
    if (end === -1) return -1
    this.text = this.#held.toString('latin1', 0, end)
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

  /**
   * The position after the empty line that ends the section that begins at `start`; -1 when the empty line has not
   * come.
   */
  #scan(bytes: Buffer, start: number, end: number): number {
    let line = start + this.#line
    for (let i = start + this.#scanned; i < end; i++) {
      const byte = bytes[i]!
      if ((byte >= space && byte !== del) || byte === tab) continue
      if (byte === cr) {
        if (i + 1 < end && bytes[i + 1] !== lf) throw new Malformed('a carriage return without a line feed')
      } else if (byte !== lf) throw new Malformed('a control character in a line')
      else if (i === line || bytes[i - 1] !== cr) throw new Malformed('a line feed without a carriage return')
      else if (i - 1 === line) {
        this.#check(i + 1 - start)
        this.#scanned = this.#line = 0
        return i + 1
      } else line = i + 1
    }
    this.#check(end - start)
    // A carriage return at the end is scanned again, together with the byte after it.
    this.#scanned = end - start - (bytes[end - 1] === cr ? 1 : 0)
    this.#line = line - start
    return -1
  }

  #check(length: number): void {
    if (length > this.#limit) throw new Malformed('too many header bytes', 'section')
  }
}
