// Writes lines to a standard stream that may be slow or stuck, without ever waiting for it.
import { writeSync } from 'node:fs'

/** The most bytes that are handed to the stream in one turn of the event loop. */
const batchBytes = 64 * 1024
/** The most characters that may wait. Further lines are dropped. */
const queueLimit = 1024 * 1024
/** The longest time that a flush waits, in milliseconds. */
const flushMs = 1000

/** A queue of lines in front of standard output or standard error. */
export class LineWriter {
  readonly #stream: NodeJS.WriteStream & { fd: number }
  readonly #onLost: (lines: number) => void
  #lines: string[] = []
  #queued = 0
  #lost = 0
  #busy = false
  #idle: (() => void)[] = []

  /** `onLost` is called with the number of dropped lines when there is room again. It may write a line about them. */
  constructor(stream: NodeJS.WriteStream & { fd: number }, onLost: (lines: number) => void) {
    this.#stream = stream
    this.#onLost = onLost
    // When the reader of the stream goes away, lines are dropped, and the program goes on.
    stream.on('error', () => {})
  }

  /**
   * Queues one line, which includes its line end. It is written at the end of this turn of the event loop, together
   * with all other lines of the turn.
   */
  write(line: string): void {
    if (this.#queued + line.length > queueLimit) {
      this.#lost++
      return
    }
    this.#lines.push(line)
    this.#queued += line.length
    if (this.#busy) return
    this.#busy = true
    process.on('exit', this.#last)
    setImmediate(() => this.#next())
  }

  /** Resolves when everything queued so far was given to the operating system, or after a second. */
  async flush(): Promise<void> {
    if (!this.#busy) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve)
      timer = setTimeout(resolve, flushMs)
    })
    clearTimeout(timer)
  }

  #next(): void {
    if (this.#lines.length === 0) {
      if (this.#lost > 0) return this.#confess()
      this.#busy = false
      process.off('exit', this.#last)
      for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    this.#stream.write(this.#take(), () => setImmediate(() => this.#next()))
  }

  #take(): string {
    let end = 0
    let size = 0
    while (end < this.#lines.length && size < batchBytes) size += this.#lines[end++]!.length
    this.#queued -= size
    return this.#lines.splice(0, end).join('')
  }

  #confess(): void {
    const lost = this.#lost
    this.#lost = 0
    this.#onLost(lost)
    this.#next()
  }

  /** Runs when the program ends without a flush, as in a crash: tries once to write what is left. */
  readonly #last = (): void => {
    try {
      while (this.#lines.length > 0) writeSync(this.#stream.fd, this.#take())
    } catch {
      // The pipe is full or closed, and there is no time to wait for it.
    }
  }
}
