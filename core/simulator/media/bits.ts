// Writes bits into bytes.

/** Writes the most significant bit first. */
export class HighBits {
  readonly bytes: number[] = []
  #byte = 0
  #count = 0

  write(value: number, count: number): this {
    for (let i = count - 1; i >= 0; i--) {
      this.#byte = (this.#byte << 1) | ((value >> i) & 1)
      if (++this.#count === 8) this.#push()
    }
    return this
  }

  /** Fills the last byte with this bit. */
  pad(bit: 0 | 1): this {
    while (this.#count > 0) this.write(bit, 1)
    return this
  }

  #push(): void {
    this.bytes.push(this.#byte)
    this.#byte = 0
    this.#count = 0
  }
}

/** Writes the least significant bit first. */
export class LowBits {
  readonly bytes: number[] = []
  #count = 0

  write(value: number, count: number): this {
    for (let i = 0; i < count; i++) {
      const place = this.#count++ % 8
      if (place === 0) this.bytes.push(0)
      this.bytes[this.bytes.length - 1]! |= ((value >> i) & 1) << place
    }
    return this
  }
}
