// Hands out pieces of one block of memory, always the lowest free one. A body that already lies in the scanner's memory
// need not be copied there, which saves 370 µs for each megabyte.

/** The length of every piece is a multiple of this, in bytes. */
const unit = 16 * 1024

/** An allocator over a block of memory that nobody else uses. */
export class Arena {
  readonly #block: Buffer
  /** By unit: the length in units of the piece that begins there; 0 for free units and for those inside a piece. */
  readonly #pieces: Uint16Array
  /** Frees pieces whose last view was collected as garbage, so that no pending read can still write to them. */
  readonly #late = new FinalizationRegistry<number>((piece) => void (this.#pieces[piece] = 0))

  constructor(block: Buffer) {
    this.#block = block
    this.#pieces = new Uint16Array(Math.min(Math.floor(block.length / unit), 65535))
  }

  /** A piece of that many bytes. It is not cleared. Undefined when no stretch is long enough. */
  take(bytes: number): Buffer | undefined {
    const pieces = this.#pieces
    const length = Math.max(1, Math.ceil(bytes / unit))
    for (let first = 0, at = 0; at < pieces.length;) {
      const taken = pieces[at]!
      if (taken > 0) first = at += taken
      else if (++at - first === length) {
        pieces[first] = length
        return this.#block.subarray(first * unit, first * unit + bytes)
      }
    }
    return undefined
  }

  /** Frees a piece. A buffer from elsewhere is left alone. */
  free(piece: Buffer): void {
    const at = this.#unitOf(piece)
    if (at !== undefined) this.#pieces[at] = 0
  }

  /** Frees a piece once a view of it has been collected as garbage: until then somebody may write through the view. */
  freeAfter(piece: Buffer, view: Buffer): void {
    const at = this.#unitOf(piece)
    if (at !== undefined) this.#late.register(view, at)
  }

  #unitOf({ buffer, byteOffset }: Buffer): number | undefined {
    return buffer === this.#block.buffer && byteOffset >= this.#block.byteOffset
      ? (byteOffset - this.#block.byteOffset) / unit
      : undefined
  }
}
