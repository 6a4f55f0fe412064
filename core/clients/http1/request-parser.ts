// Takes the bytes of requests as they are read, in any pieces, and finds heads, bodies and ends in them (RFC 9112).
import { GatewayError } from '../../errors.ts'
import { invalid, maxHeadBytes } from '../request-head.ts'
import { ChunkDecoder } from '../../wire/chunks.ts'
import { Malformed } from '../../wire/malformed.ts'
import { readHead } from './request-head.ts'
import type { Http1Head } from './request-head.ts'
import { Section } from '../../wire/section.ts'

/** An empty line before a request is passed over (RFC 9112 §2.2), one. */
const emptyLine = '\r\n'

/**
 * One per connection, for one request after another: a head, then its body. It allocates nothing for a body: what a
 * read brought of it is left in the buffer that was read into, moved together when it came in several chunks.
 */
export class RequestParser {
  /** The latest head that was read. */
  head: Http1Head | undefined
  /** Where in the bytes of the latest read its part of the body is; empty when the two are equal. */
  from = 0
  to = 0
  /** The bytes are no request; all before was. Nothing can be read any more. */
  fault: GatewayError | undefined
  readonly #section = new Section(maxHeadBytes)
  #chunks: ChunkDecoder | undefined
  /** Bytes still to come of a body with a length. */
  #left = 0
  #passedLine = false

  /** A part of a head has come. */
  get begun(): boolean {
    return this.#section.begun || this.#passedLine
  }

  /** The body of the request whose head was read is whole. */
  get ended(): boolean {
    return this.head?.length === undefined ? this.#chunks?.ended === true : this.#left === 0
  }

  /** Reads a head, which sets `head`. The position after it; all of `bytes` when it is not whole, or a fault. */
  readHead(bytes: Buffer, at: number): number {
    this.head = undefined
    try {
      let end = this.#section.read(bytes, at, bytes.length)
      if (end !== -1 && this.#section.text === emptyLine && !this.#passedLine) {
        this.#passedLine = true
        end = this.#section.read(bytes, end, bytes.length)
      }
      if (end === -1) return bytes.length
      this.#passedLine = false
      const head = readHead(this.#section.text)
      if (head.length === undefined) (this.#chunks ??= new ChunkDecoder()).begin()
      else this.#left = head.length
      this.head = head
      return end
    } catch (error) {
      return this.#fail(error, bytes)
    }
  }

  /**
   * Reads on in the body of the request whose head was read. The position after its part of `bytes`, which may be
   * changed by it.
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
