// Reads answers from bytes in any pieces, and finds heads, bodies and their ends in them (RFC 9112).
import { ChunkDecoder } from '../../wire/chunks.ts'
import { Malformed } from '../../wire/malformed.ts'
import { Section } from '../../wire/section.ts'
import { BadResponse } from '../failure.ts'
import { readHead } from './answer-head.ts'
import type { AnswerHead } from './answer-head.ts'

/** The most bytes of one head. Each interim answer has a head of its own. */
export const maxHeadBytes = 32 * 1024
/** The most interim answers (1xx) before the final one. */
export const maxInterim = 16

const atHead = 0
const inLength = 1
const untilClose = 2
const inChunks = 3
const atEnd = 4

const statusPrefix = Buffer.from('HTTP/1.')

/**
 * Parses the answers of one connection, one after another. Nothing is allocated for a body: its bytes stay in the
 * buffer that was read into, and are moved together when they came in several chunks.
 */
export class ResponseParser {
  /** The head of the answer, set by the push that completed it. */
  head: AnswerHead | undefined
  /** The part of the latest push that belongs to the body; empty when the two are equal. */
  from = 0
  to = 0
  /** The number of bytes in the latest push after the end of the answer. */
  excess = 0
  /** Set when the bytes are not a valid answer. Everything before them was valid; nothing can be pushed after them. */
  fault: BadResponse | undefined
  #state = atHead
  /** The bytes that a body with a declared length still lacks. */
  #left = 0
  #interim = 0
  /** Whether the request asked for another protocol. */
  #upgrades = false
  readonly #section = new Section(maxHeadBytes)
  #chunks: ChunkDecoder | undefined

  /** Prepares for the next answer. `upgrades`: it may be a 101, which is complete with its head. */
  begin(upgrades = false): void {
    this.#upgrades = upgrades
    this.head = this.fault = undefined
    this.#state = atHead
    this.#interim = 0
  }

  /** Whether the answer is complete. */
  get ended(): boolean {
    return this.#state === atEnd
  }

  /** Whether the end of the connection is the regular end of this answer. */
  get endsWithConnection(): boolean {
    return this.#state === untilClose
  }

  /** Reads `bytes` from 0 to `length`, and may change them. Afterwards the fields describe what was in them. */
  push(bytes: Buffer, length: number): void {
    this.from = this.to = 0
    try {
      this.excess = length - this.#read(bytes, length)
    } catch (error) {
      if (error instanceof Malformed) this.fault = new BadResponse(error.message)
      else if (error instanceof BadResponse) this.fault = error
      else throw error
    }
  }

  #read(bytes: Buffer, length: number): number {
    let at = 0
    while (this.#state === atHead) {
      at = this.#section.read(bytes, at, length)
      if (at === -1) {
        // Bytes that are not HTTP are refused at once, and not only when a time limit is over.
        if (!this.#section.begins(statusPrefix)) throw new BadResponse('the upstream does not speak HTTP/1')
        return length
      }
      this.#begun(readHead(this.#section.text))
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
    if (status === 101 && this.#upgrades) {
      this.head = head
      this.#state = atEnd
      return
    }
    if (status < 200) {
      if (status === 101) throw new BadResponse('a switch of protocols that nobody asked for')
      if (++this.#interim > maxInterim) throw new BadResponse('too many interim answers')
      return
    }
    this.head = head
    if (framing === 'none') this.#state = atEnd
    else if (framing === 'close') this.#state = untilClose
    else if (framing === 'chunked') {
      this.#chunks ??= new ChunkDecoder()
      this.#chunks.begin()
      this.#state = inChunks
    } else {
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

  #readChunks(bytes: Buffer, at: number, length: number): number {
    const chunks = this.#chunks!
    try {
      return chunks.read(bytes, at, length)
    } finally {
      this.from = chunks.from
      this.to = chunks.to
      if (chunks.ended) this.#state = atEnd
    }
  }
}
