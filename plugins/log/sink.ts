// Writes lines in batches to a destination that may be slow or stuck, without ever waiting for it.
import { appendFile, appendFileSync } from 'node:fs'

/** Writes bytes and calls back, once, when the destination took them or failed. */
export type Write = (bytes: Buffer, done: (error?: Error | null) => void) => void

/** Lines younger than this wait for company: a file is opened, written and closed once for them all. */
const lingerMs = 100
/** Of one write, unless a line is longer. */
const batchBytes = 512 * 1024
/** How long the last lines may hold up an end. */
const flushMs = 1000

/** A destination by its name in the configuration. Throws when a file cannot be written. */
export function writeTo(sink: string): Write {
  if (sink === 'stdout' || sink === 'stderr') {
    const stream = process[sink]
    // A reader that went away is not worth a crash: its lines are dropped and counted.
    if (stream.listenerCount('error') === 0) stream.on('error', () => {})
    return (bytes, done) => void stream.write(bytes, done)
  }
  try {
    appendFileSync(sink, '')
  } catch (error) {
    throw new Error(
      `log: the sink ${sink} cannot be written (${(error as Error).message}); name a file in a folder that exists, or stdout, stderr, none`
    )
  }
  // Opened for each batch, so that a file which was rotated away is followed at once.
  return (bytes, done) => appendFile(sink, bytes, done)
}

/**
 * Lines on their way, put down as bytes as they come: as texts they would live until the write, and collections would
 * move them about. Saves half a microsecond a request in a loop, and more in a gateway.
 */
class Batch {
  readonly bytes: Buffer
  length = 0
  lines = 0

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafeSlow(size)
  }

  /** The bytes that a line takes with its line break, or undefined when there is no room for them. */
  add(text: string): number | undefined {
    const room = this.bytes.length - this.length - 1
    // No character takes more than three.
    if (room < text.length * 3 && room < Buffer.byteLength(text)) return undefined
    const from = this.length
    this.length += this.bytes.write(text, from)
    this.bytes[this.length++] = 0x0a
    this.lines++
    return this.length - from
  }
}

/** A queue of lines in front of a destination, bounded in bytes: above it lines are dropped and counted. */
export class Sink {
  readonly #write: Write
  readonly #dropped: (lines: number) => void
  /** Oldest first; the last one takes what comes. */
  #batches: Batch[] = []
  /** Bytes of lines that wait or are being written. */
  #queued = 0
  #writing = false
  #timer: NodeJS.Timeout | undefined
  #idle: (() => void)[] = []

  constructor(write: Write, dropped: (lines: number) => void) {
    this.#write = write
    this.#dropped = dropped
  }

  /**
   * Queues one line, given without its line break; drops it when more than `limit` bytes would wait. Each generation
   * has a limit of its own.
   */
  line(text: string, limit: number): void {
    if (this.#queued + text.length >= limit) return this.#dropped(1)
    this.#queued += this.#batches.at(-1)?.add(text) ?? this.#begin(text).add(text)!
    if (this.#writing) return
    if (this.#batches.length > 1) this.#next()
    else this.#timer ??= setTimeout(() => this.#next(), lingerMs)
  }

  /** Resolves when everything queued so far is written or lost, or after a second. */
  async flush(): Promise<void> {
    if (!this.#writing) this.#next()
    if (!this.#writing) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve)
      timer = setTimeout(resolve, flushMs)
    })
    clearTimeout(timer)
  }

  /** A batch with room for a line, at the end of the queue. */
  #begin(text: string): Batch {
    const batch = new Batch(Math.max(text.length * 3 + 1, batchBytes))
    this.#batches.push(batch)
    return batch
  }

  #next(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = this.#batches.shift()
    if (!batch) {
      for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    this.#writing = true
    this.#write(batch.bytes.subarray(0, batch.length), (error) => {
      this.#writing = false
      this.#queued -= batch.length
      if (error) this.#dropped(batch.lines)
      this.#next()
    })
  }
}
