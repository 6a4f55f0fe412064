// Writes lines in batches to a destination that may be slow or stuck, without ever waiting for it.
import { appendFile, appendFileSync } from 'node:fs'

/** Writes text and calls back, once, when the destination took it or failed. */
export type Write = (text: string, done: (error?: Error | null) => void) => void

/** Lines younger than this wait for company: a file is opened, written and closed once for them all. */
const lingerMs = 100
/** Characters of one write, unless a line is longer. */
const batchSize = 512 * 1024
/** How long the last lines may hold up an end. */
const flushMs = 1000

/** A destination by its name in the configuration. Throws when a file cannot be written. */
export function writeTo(sink: string): Write {
  if (sink === 'stdout' || sink === 'stderr') {
    const stream = process[sink]
    // A reader that went away is not worth a crash: its lines are dropped and counted.
    if (stream.listenerCount('error') === 0) stream.on('error', () => {})
    return (text, done) => void stream.write(text, done)
  }
  try {
    appendFileSync(sink, '')
  } catch (error) {
    throw new Error(`log: the sink ${sink} cannot be written (${(error as Error).message}); name a file in a folder that exists, or stdout, stderr, none`)
  }
  // Opened for each batch, so that a file which was rotated away is followed at once.
  return (text, done) => appendFile(sink, text, done)
}

/** A queue of lines in front of a destination, bounded in bytes: above it lines are dropped and counted. */
export class Sink {
  readonly #write: Write
  readonly #limit: number
  readonly #dropped: (lines: number) => void
  /** Not written yet, oldest first. */
  #lines: string[] = []
  /** Bytes of lines that wait or are being written. */
  #queued = 0
  #writing = false
  #timer: NodeJS.Timeout | undefined
  #idle: (() => void)[] = []

  constructor(write: Write, limit: number, dropped: (lines: number) => void) {
    this.#write = write
    this.#limit = limit
    this.#dropped = dropped
  }

  /** Queues one line, given without its line break. */
  line(text: string): void {
    const bytes = Buffer.byteLength(text) + 1
    if (this.#queued + bytes > this.#limit) return this.#dropped(1)
    this.#queued += bytes
    this.#lines.push(text)
    if (this.#writing) return
    if (this.#queued >= batchSize) this.#next()
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

  #next(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#lines.length === 0) {
      for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    let count = 0
    for (let size = 0; count < this.#lines.length && size < batchSize; count++) size += this.#lines[count]!.length
    const text = `${this.#lines.splice(0, count).join('\n')}\n`
    this.#writing = true
    this.#write(text, (error) => {
      this.#writing = false
      this.#queued -= Buffer.byteLength(text)
      if (error) this.#dropped(count)
      this.#next()
    })
  }
}
