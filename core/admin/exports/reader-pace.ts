// Writes a file at the pace of its reader, and gives up one who takes it too slowly: the place is for others, too.
import { once } from 'node:events'
import type { Writable } from 'node:stream'

/** The least that a reader takes, in bytes for so many milliseconds of waiting; and the longest for a file. */
export interface LeastPace {
  readonly bytes: number
  readonly ms: number
  readonly longestMs: number
}

const usual: LeastPace = { bytes: 1024 * 1024, ms: 60_000, longestMs: 3_600_000 }

/** The reader of one file. */
export class ReaderPace {
  readonly #to: Writable
  readonly #least: LeastPace
  readonly #began = performance.now()
  /** Bytes that were written since the reader last had taken enough, and for how long it was waited for since. */
  #bytes = 0
  #waitedMs = 0
  /** Why the reader was given up, which it stays: a timer may end a moment before its time. */
  #given: Error | undefined

  constructor(to: Writable, least = usual) {
    this.#to = to
    this.#least = least
  }

  /**
   * Writes a piece. Returns a promise where the reader has to be waited for; it rejects when `ended` is aborted.
   * @throws Error when the reader takes too long, by the promise as well
   */
  write(piece: string, ended: AbortSignal): Promise<void> | undefined {
    if (this.#given || performance.now() - this.#began > this.#least.longestMs) throw this.#tooLong()
    this.#bytes += piece.length
    return this.#to.write(piece) ? undefined : this.#drained(ended)
  }

  async #drained(ended: AbortSignal): Promise<void> {
    const { bytes, ms, longestMs } = this.#least
    const since = performance.now()
    const left = Math.min(ms - this.#waitedMs, this.#began + longestMs - since)
    const patience = new AbortController()
    const timer = setTimeout(() => patience.abort(), left).unref()
    try {
      await once(this.#to, 'drain', { signal: AbortSignal.any([ended, patience.signal]) })
    } catch (error) {
      throw patience.signal.aborted && !ended.aborted ? this.#tooLong() : error
    } finally {
      clearTimeout(timer)
    }
    this.#waitedMs += performance.now() - since
    if (this.#bytes < bytes) return
    this.#bytes = 0
    this.#waitedMs = 0
  }

  #tooLong(): Error {
    const { bytes, ms, longestMs } = this.#least
    return (this.#given ??= new Error(
      `its reader takes less than ${bytes} bytes in ${ms} ms, or longer than ${longestMs} ms for all: ask for less of it`
    ))
  }
}
