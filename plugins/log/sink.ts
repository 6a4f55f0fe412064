// Writes lines in batches to a destination that may be slow or stuck, without ever waiting for it.
import { appendFile, appendFileSync } from 'node:fs'
import { open } from 'node:fs/promises'

/** Writes bytes, and calls `done` once, when the destination took them or failed. */
export type Write = (bytes: Buffer, done: (error?: Error | null) => void) => void

/** Lines wait this long for others, so that a file is opened, written and closed once for all of them. */
const lingerMs = 100
/** The most bytes of one write, unless a single line is longer. */
const batchBytes = 512 * 1024
/** How many empty batches are kept. */
const mostSpares = 2
/** The longest time that a flush waits, in milliseconds. */
const flushMs = 1000

/**
 * A destination by its name in the configuration.
 * @throws Error when a file cannot be written
 */
export function writeTo(sink: string): Write {
  if (sink === 'stdout' || sink === 'stderr') {
    const stream = process[sink]
    // When the reader of the stream goes away, lines are dropped and counted, and the program goes on.
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
  let failed = false
  const append: Write = (bytes, done) =>
    appendFile(sink, bytes, (error) => {
      failed = error !== null
      done(error)
    })
  // The file is opened for each batch, so that after a log rotation the next batch goes to the new file.
  return (bytes, done) => {
    if (!failed) return append(bytes, done)
    const write = (cut: boolean): void => append(cut ? Buffer.concat([lineBreak, bytes]) : bytes, done)
    void endsCut(sink).then(write, () => write(false))
  }
}

const lineBreak = Buffer.from('\n')

/** Whether the last line of a file has no line break: a full disk may take half of a batch. */
async function endsCut(file: string): Promise<boolean> {
  await using handle = await open(file)
  const { size } = await handle.stat()
  if (size === 0) return false
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
  return !buffer.equals(lineBreak)
}

/**
 * Lines that wait, stored as bytes at once. As strings they would live until the write, and garbage collections would
 * move them. This saves half a microsecond per request in a benchmark loop, and more in a gateway.
 */
class Batch {
  readonly bytes: Buffer
  length = 0
  lines = 0

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafeSlow(size)
  }

  /** Empties it, once its bytes were written or lost. */
  clear(): void {
    this.length = this.lines = 0
  }

  /** Adds a line. Returns the bytes that it takes with its line break; undefined when there is no room. */
  add(text: string): number | undefined {
    const room = this.bytes.length - this.length - 1
    // No character of a string takes more than three bytes.
    if (room < text.length * 3 && room < Buffer.byteLength(text)) return undefined
    const from = this.length
    this.length += this.bytes.write(text, from)
    this.bytes[this.length++] = 0x0a
    this.lines++
    return this.length - from
  }
}

/** A queue of lines to a destination, limited in bytes. Lines above the limit are dropped and counted. */
export class Sink {
  readonly #write: Write
  readonly #dropped: (lines: number) => void
  /** Oldest first; new lines go into the last batch. */
  #batches: Batch[] = []
  /**
   * Empty batches for the next lines: one is filled while another is written. New memory some times a second would have
   * V8 mark the whole heap for it.
   */
  readonly #spares: Batch[] = []
  /** The bytes of lines that wait or are being written. */
  #queued = 0
  #writing = false
  #timer: NodeJS.Timeout | undefined
  #idle: (() => void)[] = []

  constructor(write: Write, dropped: (lines: number) => void) {
    this.#write = write
    this.#dropped = dropped
  }

  /**
   * Queues one line, given without its line break. Drops it when more than `limit` bytes would wait; the limit may
   * differ between generations.
   */
  line(text: string, limit: number): void {
    if (this.#queued + text.length >= limit) return this.#dropped(1)
    this.#queued += this.#batches.at(-1)?.add(text) ?? this.#begin(text).add(text)!
    if (this.#writing) return
    if (this.#batches.length > 1) this.#next()
    else this.#timer ??= setTimeout(() => this.#next(), lingerMs)
  }

  /** Resolves when everything queued so far was written or lost, or after a second. */
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

  /** Adds a batch with room for this line to the queue. */
  #begin(text: string): Batch {
    const size = text.length * 3 + 1
    const spare = size <= batchBytes ? this.#spares.pop() : undefined
    const batch = spare ?? new Batch(Math.max(size, batchBytes))
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
      batch.clear()
      if (batch.bytes.length === batchBytes && this.#spares.length < mostSpares) this.#spares.push(batch)
      this.#next()
    })
  }
}
