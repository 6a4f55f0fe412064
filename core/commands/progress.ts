// Says on standard error how far a long command is, every second: by a thread, as the command itself may block its own.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** Bytes of what is being done. */
const wordsBytes = 200

/** What both threads see. */
export interface ProgressState {
  /** Not 0: the command is over. */
  readonly over: Int32Array<SharedArrayBuffer>
  /** How many rows have been looked at; 0: none are counted. */
  readonly rows: BigInt64Array<SharedArrayBuffer>
  /** What is being done, in UTF-8, up to a zero byte. */
  readonly words: Uint8Array<SharedArrayBuffer>
}

/** Of one command. */
export class Progress {
  readonly #state: ProgressState = {
    over: new Int32Array(new SharedArrayBuffer(4)),
    rows: new BigInt64Array(new SharedArrayBuffer(8)),
    words: new Uint8Array(new SharedArrayBuffer(wordsBytes + 1))
  }
  readonly #thread: Worker

  constructor(words: string) {
    this.step(words)
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const file = new URL(`./progress-thread.${ending}`, import.meta.url)
    // What this process was started with, as code on its command line, is nothing for the thread.
    this.#thread = new Worker(file, { workerData: this.#state, execArgv: [] })
  }

  /** Runs something long, and says how far it is until it has ended, however that is. */
  static async of<T>(words: string, run: (progress: Progress) => T | Promise<T>): Promise<T> {
    const progress = new Progress(words)
    try {
      return await run(progress)
    } finally {
      await progress.#end()
    }
  }

  /** From now on this is done; `rows`: that were looked at so far. */
  step(words: string, rows = 0): void {
    const { words: shown, rows: count } = this.#state
    const { written } = new TextEncoder().encodeInto(words, shown.subarray(0, wordsBytes))
    shown.fill(0, written)
    Atomics.store(count, 0, BigInt(rows))
  }

  /** Resolves when the thread is gone. */
  async #end(): Promise<void> {
    Atomics.store(this.#state.over, 0, 1)
    Atomics.notify(this.#state.over, 0)
    await once(this.#thread, 'exit')
  }
}
