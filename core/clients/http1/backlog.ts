// Bytes that a connection has read and cannot process yet.

/** Keeps the bytes as one growing copy, so that many small reads do not cost more memory than their bytes. */
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

  /** Keeps the rest of the bytes that `take` returned, without a copy. Nothing may have been added since. */
  giveBack(rest: Buffer): void {
    this.#bytes = rest
    this.#length = rest.length
  }

  /** Returns all bytes, and holds none afterwards. */
  take(): Buffer {
    const bytes = this.#bytes!.subarray(0, this.#length)
    this.#bytes = undefined
    this.#length = 0
    return bytes
  }
}
