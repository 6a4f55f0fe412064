// Has a thread of its own compare request records while this one makes the other checks of `verify`.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { RecordsCompared } from './record-comparison.ts'

/** What the thread is to compare. */
export interface RecordOrder {
  readonly file: string
  /** Shared: how many records it has read, and whether it failed. */
  readonly state: BigInt64Array<SharedArrayBuffer>
}

/** The milliseconds between two looks at how far it is. */
const pause = 200

/** The comparison of one store. */
export class Comparing {
  readonly #state = new BigInt64Array(new SharedArrayBuffer(16))
  readonly #thread: Worker
  readonly #found: Promise<RecordsCompared>

  /** `file` is the canonical path of the store. */
  constructor(file: string) {
    // Sources and compiled files lie in the same places and differ only in their endings.
    const module = new URL(`./record-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
    const order: RecordOrder = { file, state: this.#state }
    // The thread must not take over the process's own arguments for Node, such as `--eval` with code.
    this.#thread = new Worker(module, { name: 'comparing', workerData: order, execArgv: [] })
    const died = once(this.#thread, 'exit').then(() => {
      throw new Error('the thread that compares request records ended')
    })
    died.catch(() => {})
    const told = once(this.#thread, 'message') as Promise<[RecordsCompared]>
    this.#found = Promise.race([told.then(([found]) => found), died])
    this.#found.catch(() => {})
  }

  /** Whether it failed, so that nothing that is found beside it counts. */
  get failed(): boolean {
    return Atomics.load(this.#state, 1) !== 0n
  }

  /**
   * Resolves with what it found. `reached` is called now and then with how many records it has read.
   * @throws Error when it failed, or the thread died
   */
  async found(reached: (records: number) => void): Promise<RecordsCompared> {
    let found: RecordsCompared | undefined
    const over = this.#found.then((all) => void (found = all))
    for (;;) {
      const waiting = new AbortController()
      await Promise.race([over, sleep(pause, undefined, waiting).catch(() => {})])
      waiting.abort()
      if (found) return found
      reached(Number(Atomics.load(this.#state, 0)))
    }
  }

  /** Ends it, wherever it is. */
  async end(): Promise<void> {
    await this.#thread.terminate()
  }
}
