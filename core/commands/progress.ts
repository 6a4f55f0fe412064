// Prints the progress of a long command on standard error every second. A thread prints it, because the command may
// block the main thread.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** The size in bytes of the text that says what is being done. */
const wordsBytes = 200

/** The memory that both threads share. */
export interface ProgressState {
  /** Not 0 when the command is over. */
  readonly over: Int32Array<SharedArrayBuffer>
  /** How many rows were processed; 0 when rows are not counted. */
  readonly rows: BigInt64Array<SharedArrayBuffer>
  /** What is being done, in UTF-8, ending with a zero byte. */
  readonly words: Uint8Array<SharedArrayBuffer>
}

/** The progress of one command. */
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
    // The thread must not take over the process's own arguments for Node, such as `--eval` with code.
    this.#thread = new Worker(file, { workerData: this.#state, execArgv: [] })
  }

  /** Calls `run`, and prints its progress until it ends or throws. */
  static async of<T>(words: string, run: (progress: Progress) => T | Promise<T>): Promise<T> {
    const progress = new Progress(words)
    try {
      return await run(progress)
    } finally {
      await progress.#end()
    }
  }

  /** Sets what is being done now. `rows` is how many rows were processed so far. */
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
