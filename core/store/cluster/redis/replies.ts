// Reads what a Redis server answers, by the protocol RESP2.

/** What is answered: bytes, a whole number, nothing, or a list. */
export type Reply = Buffer | number | null | readonly Reply[]

/** An answer that says why there is none. */
export class RedisError extends Error {
  override readonly name = 'RedisError'
}

/** The first bytes of answers. */
const [text, error, number, bulk, list] = Array.from('+-:$*', (sign) => sign.charCodeAt(0))
const [cr, minus, zero] = [0x0d, 0x2d, 0x30]
const nothing: Buffer = Buffer.alloc(0)

/** The answers of one connection, in their order. */
export class Replies {
  readonly #tell: (reply: Reply | RedisError) => void
  /** The bytes of an answer that is not whole, with what came behind them. */
  #bytes = nothing
  #at = 0

  constructor(tell: (reply: Reply | RedisError) => void) {
    this.#tell = tell
  }

  /**
   * Tells each answer that is whole. The memory of `bytes` may be used again after the call.
   * @throws Error when it is not RESP2
   */
  take(bytes: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    this.#at = 0
    while (this.#at < this.#bytes.length) {
      const from = this.#at
      const reply = this.#next()
      if (reply === undefined) {
        this.#bytes = Buffer.from(this.#bytes.subarray(from))
        return
      }
      this.#tell(reply)
    }
    this.#bytes = nothing
  }

  /** The next answer; undefined when it is not whole. */
  #next(): Reply | RedisError | undefined {
    const kind = this.#bytes[this.#at]!
    const from = this.#at + 1
    const end = this.#bytes.indexOf(cr, from)
    if (end < 0 || end + 2 > this.#bytes.length) return undefined
    this.#at = end + 2
    switch (kind) {
      case bulk:
        return this.#bulk(this.#whole(from, end))
      case number:
        return this.#whole(from, end)
      case error:
        return new RedisError(this.#bytes.toString('utf8', from, end))
      case text:
        return Buffer.from(this.#bytes.subarray(from, end))
      case list:
        return this.#list(this.#whole(from, end))
      default:
        throw new Error('PROTOCOL what answers is no Redis server')
    }
  }

  #whole(from: number, end: number): number {
    const negative = this.#bytes[from] === minus
    let value = 0
    for (let at = negative ? from + 1 : from; at < end; at++) value = value * 10 + this.#bytes[at]! - zero!
    return negative ? -value : value
  }

  #bulk(length: number): Buffer | null | undefined {
    if (length < 0) return null
    const from = this.#at
    const end = from + length
    if (end + 2 > this.#bytes.length) return undefined
    this.#at = end + 2
    return Buffer.from(this.#bytes.subarray(from, end))
  }

  #list(length: number): Reply | undefined {
    if (length < 0) return null
    const replies: Reply[] = []
    while (replies.length < length) {
      const reply = this.#at < this.#bytes.length ? this.#next() : undefined
      if (reply === undefined) return undefined
      // None of our commands has errors within a list.
      replies.push(reply instanceof RedisError ? null : reply)
    }
    return replies
  }
}
