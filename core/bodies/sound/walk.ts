// Walks through a recording while it streams by: reads the heads of its pieces and skips their contents.

/** The most bytes that are kept to read one head. No known format needs more. */
const mostKept = 64 * 1024
/**
 * How many heads may be read: this many, and one more for every so many bytes. A recording with more is made to keep
 * the gateway busy.
 */
const freeLooks = 10_000
const bytesPerLook = 8

/** Reads one recording in one format. */
export interface SoundFormat {
  /**
   * Reads the piece that begins here. Returns its length, which may be more than the bytes given, or 0 when it needs
   * more bytes to know.
   * @throws RangeError when the bytes are not of this format
   */
  take(bytes: Buffer): number
  /** The seconds so far; undefined when they are not known. `size`: the bytes of the whole recording. */
  seconds(size: number): number | undefined
}

/** Brings the bytes of one recording to its format. */
export class Walk {
  readonly #format: SoundFormat
  #kept: Buffer = Buffer.alloc(0)
  #skip = 0
  #looks = 0
  #passed = 0
  #lost = false

  constructor(format: SoundFormat) {
    this.#format = format
  }

  /** Takes the next bytes. Only an incomplete head of them is kept. */
  push(bytes: Buffer): void {
    if (this.#lost) return
    this.#passed += bytes.length
    if (this.#skip >= bytes.length) {
      this.#skip -= bytes.length
      return
    }
    const text = this.#kept.length > 0 ? Buffer.concat([this.#kept, bytes]) : bytes
    let at = this.#skip
    this.#skip = 0
    try {
      while (at < text.length) {
        const used = this.#format.take(text.subarray(at))
        if (used === 0) break
        if (++this.#looks > freeLooks + this.#passed / bytesPerLook) throw new RangeError('it is in too many pieces')
        at += used
      }
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      this.#lost = true
    }
    this.#skip = Math.max(0, at - text.length)
    // A copy, as a view would keep the whole chunk in memory.
    this.#kept = Buffer.from(text.subarray(at))
    if (this.#kept.length > mostKept) this.#lost = true
    if (this.#lost) this.#kept = Buffer.alloc(0)
  }

  /**
   * See {@link SoundFormat.seconds}. Undefined when the bytes were not of the format, or when the result makes no
   * sense.
   */
  seconds(size: number): number | undefined {
    const seconds = this.#lost ? undefined : this.#format.seconds(size)
    return seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined
  }
}
