// Writes lines to a standard stream that may be slow or stuck, without ever waiting for it.
import { writeSync } from 'node:fs'

/** Bytes handed to the stream at a time: at most this much in one turn of the loop. */
const batchBytes = 64 * 1024
/** Characters that wait; above it lines are dropped. */
const queueLimit = 1024 * 1024
/** How long the last lines may hold up the end of the program. */
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

  /** `onLost` is told, once there is room again, how many lines were dropped; it may write one. */
  constructor(stream: NodeJS.WriteStream & { fd: number }, onLost: (lines: number) => void) {
    this.#stream = stream
    this.#onLost = onLost
    // A reader that went away is not worth a crash: its lines are dropped.
    stream.on('error', () => {})
  }

  /**
   * Queues one line, line end included; it is written at the end of this turn of the loop, with all others of the turn.
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

  /** Resolves when everything queued so far is with the system, or after a second. */
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

  /** The program ends without a flush, as in a crash: one try at what is left. */
  readonly #last = (): void => {
    try {
      while (this.#lines.length > 0) writeSync(this.#stream.fd, this.#take())
    } catch {
      // A full or closed pipe, and no time to wait for it.
    }
  }
}
