// Walks through a JSON text in slices, and tells of its structure and its strings without parsing it.
import type { Work } from './turns.ts'

/** How many steps pass between two looks at the clock. */
const stride = 1024

const quote = 0x22
const backslash = 0x5c

/**
 * One walk through a text. Who looks for something extends this. Of a text that is no JSON everything may be told, and
 * the walk comes to its end all the same.
 */
export abstract class Walk<T> implements Work<T> {
  protected readonly bytes: Buffer
  /** Set when enough has been found: nothing more is looked at. */
  protected over = false
  #at = 0
  /** The offset of the opening quote of the string being read; undefined outside strings. */
  #text: number | undefined
  /** A number or a word is being read. */
  #inScalar = false

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  advance(until: number): T | undefined {
    const { bytes } = this
    const { length } = bytes
    let at = this.#at
    let text = this.#text
    let inScalar = this.#inScalar
    for (let step = 1; at < length && !this.over; step++) {
      if (step % stride === 0 && performance.now() >= until) {
        this.#at = at
        this.#text = text
        this.#inScalar = inScalar
        return undefined
      }
      if (text !== undefined) {
        // A string goes on to the next quote, unless that is escaped.
        const end = bytes.indexOf(quote, at)
        if (end === -1) {
          at = length
          break
        }
        at = end + 1
        let escapes = 0
        while (bytes[end - 1 - escapes] === backslash) escapes++
        if (escapes % 2 === 1) continue
        this.text(text, end)
        text = undefined
        continue
      }
      const byte = bytes[at]!
      switch (byte) {
        case quote:
          text = at
          break
        case 0x7b:
        case 0x5b:
          inScalar = false
          this.open(at, byte === 0x5b)
          break
        case 0x7d:
        case 0x5d:
          this.close(at)
          break
        case 0x2c:
          inScalar = false
          this.comma()
          break
        case 0x3a:
        case 0x20:
        case 0x0a:
        case 0x0d:
        case 0x09:
          break
        default:
          if (inScalar) break
          inScalar = true
          this.scalar(byte)
      }
      at++
    }
    return this.found
  }

  /** The result, asked for when the walk is over. */
  protected abstract get found(): T
  /** A list or an object begins. */
  protected abstract open(at: number, list: boolean): void
  /** It ends. */
  protected abstract close(at: number): void
  /** An element or member has ended, and another one follows. */
  protected abstract comma(): void
  /** A string, which may be a member's name: the offsets of its quotes. */
  protected abstract text(from: number, end: number): void
  /** A number, `true`, `false` or `null`, by its first byte. */
  protected abstract scalar(first: number): void
}
