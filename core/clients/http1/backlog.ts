// Bytes that were read before their turn.

/** A copy of them, put together, so that bytes which come one by one cost no more than they are. */
export class Backlog {
  #bytes: Buffer | undefined
  #length = 0

  get length(): number {
    return this.#length
  }

  add(bytes: Buffer): void {
    const before = this.#length
    this.#length += bytes.length
    if (!this.#bytes || this.#length > this.#bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(this.#length, before * 2))
      this.#bytes?.copy(grown, 0, 0, before)
      this.#bytes = grown
    }
    bytes.copy(this.#bytes, before)
  }

  /** Holds what is left of the bytes that were taken, where they are. Nothing may have been added since. */
  giveBack(rest: Buffer): void {
    this.#bytes = rest
    this.#length = rest.length
  }

  /** All of it; nothing is held afterwards. */
  take(): Buffer {
    const bytes = this.#bytes!.subarray(0, this.#length)
    this.#bytes = undefined
    this.#length = 0
    return bytes
  }
}
