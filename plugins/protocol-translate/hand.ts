// One thread that translates, one task at a time. A task that takes too long or too much memory ends the thread, and
// the next task gets another.
import { Worker } from 'node:worker_threads'
import type { Answer, Question } from './thread.ts'

/**
 * The most heap of a thread. A task that may need too much of it is refused beforehand (see effort.ts), because a
 * thread that runs out of memory within one step of V8 takes the process with it.
 */
const resourceLimits = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 16 }

/** One thread of a process. It is started with the first question. */
export class Hand {
  /** True while a task uses it. */
  busy = false
  readonly #patience: number
  #thread: Worker | undefined
  #timer: NodeJS.Timeout | undefined
  /** Gives the answer to the caller that waits for it. */
  #tell: ((answer: Answer | undefined) => void) | undefined

  /** `patience`: the most milliseconds for one answer. */
  constructor(patience: number) {
    this.#patience = patience
  }

  /**
   * Asks the thread; undefined when the thread ends over the question. Called only when the last question has been
   * answered. Rejects when the question cannot be sent. The bytes are transferred to the thread, and lost here.
   */
  async ask(question: Question): Promise<Answer | undefined> {
    const thread = (this.#thread ??= this.#begin())
    thread.postMessage(question, [question.bytes.buffer as ArrayBuffer])
    thread.ref()
    // Answers that have already arrived are taken first: the event loop may be late, and not the thread.
    this.#timer = setTimeout(() => setImmediate(() => this.#giveUp(thread)), this.#patience)
    return new Promise((tell) => (this.#tell = tell))
  }

  /** Ends the thread, when its answers are not needed any more. */
  close(): void {
    clearTimeout(this.#timer)
    const thread = this.#thread
    this.#thread = undefined
    void thread?.terminate()
  }

  #begin(): Worker {
    // Source and compiled files are in the same places, with other endings.
    const file = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
    const thread = new Worker(file, { name: 'translation', resourceLimits })
    // An answer of a thread that was given up does not belong to the present question.
    thread.on('message', (answer: Answer) => void (thread === this.#thread && this.#answered(thread, answer)))
    // The thread ran out of memory. The next question gets another thread.
    thread.on('error', () => {})
    thread.on('exit', () => this.#lost(thread))
    return thread
  }

  #answered(thread: Worker, answer: Answer | undefined): void {
    const tell = this.#tell
    this.#tell = undefined
    clearTimeout(this.#timer)
    // An idle thread must not keep the process alive.
    thread.unref()
    tell?.(answer)
  }

  #giveUp(thread: Worker): void {
    if (!this.#tell) return
    this.#lost(thread)
    void thread.terminate()
  }

  #lost(thread: Worker): void {
    if (thread !== this.#thread) return
    this.#thread = undefined
    this.#answered(thread, undefined)
  }
}
