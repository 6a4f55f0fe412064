// Walks over a recording while it streams by: looks at the heads of its pieces, passes over what is in them, and keeps
// nothing.

/** Most bytes that are kept for a look; a head that needs more is of no format. */
const mostKept = 64 * 1024
/**
 * Looks at the first bytes, and bytes for each look after them: sound that takes more is made to keep the gateway busy.
 */
const freeLooks = 10_000
const bytesPerLook = 8

/** One recording in one format. */
export interface SoundFormat {
  /**
   * Looks at what stands next. Returns how many bytes it is done with, which may be more than are there yet, or 0 when
   * it needs more to say so. @throws RangeError when the bytes are none of this format
   */
  take(bytes: Buffer): number
  /** How long it was by now, in seconds; undefined when nothing has said it. `size`: bytes of the whole recording. */
  seconds(size: number): number | undefined
}

/** Leads one recording past its format. */
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

  /** The next bytes; they are not kept, but for the beginning of a head. */
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
    // A copy, as the view would keep all of the chunk.
    this.#kept = Buffer.from(text.subarray(at))
    if (this.#kept.length > mostKept) this.#lost = true
    if (this.#lost) this.#kept = Buffer.alloc(0)
  }

  /** See {@link SoundFormat.seconds}; undefined for what is no recording, or makes no sense. */
  seconds(size: number): number | undefined {
    const seconds = this.#lost ? undefined : this.#format.seconds(size)
    return seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined
  }
}
