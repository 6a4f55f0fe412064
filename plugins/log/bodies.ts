// Keeps the beginnings of requests and answers for the log when an operator has turned that on, without credentials.
import { Keys } from '../../core/contract/contract.ts'
import type { Channel, Message } from '../../core/contract/contract.ts'

/**
 * Bytes that are kept beyond the limit, so that a credential that crosses the limit is found before the text is cut.
 */
const margin = 512

/** The first bytes of one answer. */
export class Excerpt {
  readonly takes = 'frames'
  readonly borrows = true
  readonly #limit: number
  readonly #pieces: Buffer[] = []
  #size = 0

  constructor(limit: number) {
    this.#limit = limit + margin
  }

  observe(message: Message): void {
    if (this.#size >= this.#limit) return
    // A copy, because a view would keep the whole chunk of network data in memory as long as the exchange.
    const piece = Buffer.from(message.bytes.subarray(0, this.#limit - this.#size))
    this.#pieces.push(piece)
    this.#size += piece.length
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces)
  }
}

/**
 * Makes a function that turns bytes into text of at most `limit` characters, without the keys that the channels have
 * then and without anything that looks like a key or identifies an account.
 */
export function redactor(limit: number, channels: Iterable<Channel>): (bytes: Buffer) => string {
  const keys = new Keys(channels)
  return (bytes) => keys.without(bytes.toString('utf8', 0, limit + margin)).slice(0, limit)
}
