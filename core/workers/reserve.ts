// The threads of workers before they are given their order. Their code can be loaded ahead, while nobody waits.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/**
 * How large the young objects of a worker may become, in MiB: three times a half of their space. Where memory runs out,
 * Node gives a thread 16 MiB more to end in, and V8 ends the process when these are not enough. A collection moves a
 * half at most, which is 64 MiB by default: of 30 threads that took memory quickly seven took the process with them.
 */
const young = 48

/** Threads by the places of the workers that they are for. */
export class Reserve {
  readonly #module: URL
  readonly #env: NodeJS.ProcessEnv
  readonly #waiting = new Map<number, Worker>()

  /** `module`: of the threads; each says a word when it has loaded, and waits for its order. */
  constructor(module: URL, env: NodeJS.ProcessEnv) {
    this.#module = module
    this.#env = env
  }

  /**
   * Starts threads for so many workers. Resolves when they have loaded their code.
   * @throws Error when one cannot
   */
  async fill(count: number): Promise<void> {
    const numbers = Array.from({ length: count }, (_, i) => i + 1)
    await Promise.all(
      numbers.map(async (number) => {
        const thread = this.#start(number)
        this.#waiting.set(number, thread)
        const ended = once(thread, 'exit').then(() => Promise.reject(new Error(`worker ${number} could not be loaded`)))
        await Promise.race([once(thread, 'message'), ended])
        ended.catch(() => {})
      })
    )
  }

  /** A thread for the worker of a place: the one that waits, or a new one. */
  take(number: number): Worker {
    const waiting = this.#waiting.get(number)
    this.#waiting.delete(number)
    return waiting ?? this.#start(number)
  }

  /** Ends those that nobody has taken. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#waiting.values(), (thread) => thread.terminate()))
    this.#waiting.clear()
  }

  #start(number: number): Worker {
    return new Worker(this.#module, {
      name: `worker ${number}`,
      resourceLimits: { maxYoungGenerationSizeMb: young },
      env: this.#env
    })
  }
}
