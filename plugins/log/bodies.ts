// Keeps the beginning of what was asked and answered, when an operator has turned that on, with credentials taken out.
import { Secrets } from '../../core/contract/contract.ts'
import type { Channel, Message } from '../../core/contract/contract.ts'

/** Taken beyond the limit, so that a credential across it is seen whole before the cut. */
const margin = 512

/** Bytes of one answer, up to a limit. */
export class Excerpt {
  readonly takes = 'frames'
  readonly #limit: number
  readonly #pieces: Buffer[] = []
  #size = 0

  constructor(limit: number) {
    this.#limit = limit + margin
  }

  observe(message: Message): void {
    if (this.#size >= this.#limit) return
    // A copy: a view would keep the whole chunk of the network alive as long as the exchange.
    const piece = Buffer.from(message.bytes.subarray(0, this.#limit - this.#size))
    this.#pieces.push(piece)
    this.#size += piece.length
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces)
  }
}

/**
 * Makes bytes into text of at most `limit` characters without the keys of the channels, and without anything that looks
 * like a key or says whose account it is.
 */
export function redactor(limit: number, channels: Iterable<Channel>): (bytes: Buffer) => string {
  const secrets = new Secrets(channels, 'keys')
  return (bytes) => secrets.without(bytes.toString('utf8', 0, limit + margin)).slice(0, limit)
}
