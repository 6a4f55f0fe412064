// Prints the progress of a long command on standard error: one line that changes on a terminal, otherwise a line now
// and then. A thread prints it, because the command may block the main thread.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Tell } from '../../store/embedded/care/tell.ts'
import { units } from './progress-line.ts'

/** The size in bytes of the text that says what is being done. */
const wordsBytes = 200

/** The memory that both threads share. */
export interface ProgressState {
  /** Not 0 when the command is over. */
  readonly over: Int32Array<SharedArrayBuffer>
  /** How much was done, and of how much; -1 where it is not known. */
  readonly amount: BigInt64Array<SharedArrayBuffer>
  /** The place of the unit in {@link units}. */
  readonly unit: Int32Array<SharedArrayBuffer>
  /** What is being done, in UTF-8, ending with a zero byte. */
  readonly words: Uint8Array<SharedArrayBuffer>
  /** Whether one line is to be written over and over. */
  readonly live: boolean
}

/** The progress of one command. */
export class Progress {
  readonly #state: ProgressState = {
    over: new Int32Array(new SharedArrayBuffer(4)),
    amount: new BigInt64Array(new SharedArrayBuffer(16)),
    unit: new Int32Array(new SharedArrayBuffer(4)),
    words: new Uint8Array(new SharedArrayBuffer(wordsBytes + 1)),
    live: process.stderr.isTTY && process.env['TERM'] !== 'dumb'
  }
  readonly #thread: Worker

  constructor(words: string) {
    this.tell(words)
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const file = new URL(`./progress-thread.${ending}`, import.meta.url)
    // The thread must not take over the process's own arguments for Node, such as `--eval` with code.
    this.#thread = new Worker(file, { workerData: this.#state, execArgv: [] })
  }

  /**
   * Calls `run`, and prints its progress until it ends or throws. One that `streams` writes rows on standard output
   * meanwhile, which say enough, and would be mixed with it, where that is a terminal.
   */
  static async of<T>(words: string, run: (tell: Tell) => T | Promise<T>, { streams = false } = {}): Promise<T> {
    if (streams && process.stdout.isTTY) return run(() => {})
    const progress = new Progress(words)
    try {
      return await run(progress.tell)
    } finally {
      await progress.#end()
    }
  }

  /** Sets what is being done now. */
  readonly tell: Tell = (words, amount) => {
    const { words: shown, amount: numbers, unit } = this.#state
    const { written } = new TextEncoder().encodeInto(words, shown.subarray(0, wordsBytes))
    shown.fill(0, written)
    Atomics.store(unit, 0, units.indexOf(amount?.unit ?? 'rows'))
    Atomics.store(numbers, 1, BigInt(amount?.of ?? -1))
    Atomics.store(numbers, 0, BigInt(amount?.done ?? -1))
  }

  /** Resolves when the thread is gone. */
  async #end(): Promise<void> {
    Atomics.store(this.#state.over, 0, 1)
    Atomics.notify(this.#state.over, 0)
    await once(this.#thread, 'exit')
  }
}
