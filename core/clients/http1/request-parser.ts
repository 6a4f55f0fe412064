// Reads requests from bytes in any pieces, and finds heads, bodies and their ends in them (RFC 9112).
import { GatewayError } from '../../errors.ts'
import { invalid, maxHeadBytes } from '../request-head.ts'
import { ChunkDecoder } from '../../wire/chunks.ts'
import { Malformed } from '../../wire/malformed.ts'
import { HeadBefore } from './head-before.ts'
import { readHead } from './request-head.ts'
import type { Http1Head } from './request-head.ts'
import { Section } from '../../wire/section.ts'

/** One empty line before a request is ignored (RFC 9112 §2.2). */
const emptyLine = '\r\n'

/**
 * Parses the requests of one connection, one after another: a head, then its body. Nothing is allocated for a body: its
 * bytes stay in the buffer that was read into, and are moved together when they came in several chunks.
 */
export class RequestParser {
  /** The head that was read last. */
  head: Http1Head | undefined
  /** The part of the latest read that belongs to the body; empty when the two are equal. */
  from = 0
  to = 0
  /** Set when the bytes are not a valid request. Everything before them was valid; nothing can be read after them. */
  fault: GatewayError | undefined
  readonly #section = new Section(maxHeadBytes)
  #chunks: ChunkDecoder | undefined
  /** The bytes that a body with a declared length still lacks. */
  #left = 0
  #passedLine = false
  /** Undefined until the second request of the connection: many have only one. */
  #before: HeadBefore | undefined
  #isFirst = true

  /** Whether a part of a head has come. */
  get begun(): boolean {
    return this.#section.begun || this.#passedLine
  }

  /** Whether the body of the current request is complete. */
  get ended(): boolean {
    return this.head?.length === undefined ? this.#chunks?.ended === true : this.#left === 0
  }

  /**
   * Reads a head and sets `head`. Returns the position after it, or the end of `bytes` when the head is incomplete or
   * invalid.
   */
  readHead(bytes: Buffer, at: number): number {
    this.head = undefined
    const same = this.begun ? undefined : this.#before?.recognize(bytes, at)
    if (same) {
      this.#begin(same)
      return this.#before!.end
    }
    try {
      let end = this.#section.read(bytes, at, bytes.length)
      if (end !== -1 && this.#section.text === emptyLine && !this.#passedLine) {
        this.#passedLine = true
        end = this.#section.read(bytes, end, bytes.length)
      }
      if (end === -1) return bytes.length
      this.#passedLine = false
      const head = readHead(this.#section.text)
      if (this.#isFirst) this.#isFirst = false
      else (this.#before ??= new HeadBefore()).keep(head, this.#section.text)
      this.#begin(head)
      return end
    } catch (error) {
      return this.#fail(error, bytes)
    }
  }

  #begin(head: Http1Head): void {
    if (head.length === undefined) (this.#chunks ??= new ChunkDecoder()).begin()
    else this.#left = head.length
    this.head = head
  }

  /**
   * Reads on in the body of the current request, and may change `bytes`. Returns the position after the body's part of
   * `bytes`.
   */
  readBody(bytes: Buffer, at: number): number {
    if (this.head!.length !== undefined) {
      this.from = at
      this.to = Math.min(bytes.length, at + this.#left)
      this.#left -= this.to - at
      return this.to
    }
    const chunks = this.#chunks!
    try {
      const end = chunks.read(bytes, at, bytes.length)
      this.from = chunks.from
      this.to = chunks.to
      return end
    } catch (error) {
      this.from = this.to = 0
      return this.#fail(error, bytes)
    }
  }

  #fail(error: unknown, bytes: Buffer): number {
    if (error instanceof Malformed) this.fault = refusalOf(error)
    else if (error instanceof GatewayError) this.fault = error
    else throw error
    return bytes.length
  }
}

function refusalOf({ message, excess }: Malformed): GatewayError {
  if (excess === 'section') return invalid(`The head of a request may have ${maxHeadBytes} bytes.`, 431)
  if (excess === 'extensions') return invalid('The chunk extensions are too long.', 413)
  return invalid(`The request is not valid HTTP: ${message}.`)
}
