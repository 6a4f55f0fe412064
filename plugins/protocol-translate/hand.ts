// One thread that translates, for one asker after the other: what takes too long or too much memory ends it, and the
// next one has another.
import { Worker } from 'node:worker_threads'
import type { Answer, Question } from './thread.ts'

/**
 * Most of the heap. What may take more than a part of it is refused before it is begun (`effort`): a thread that runs
 * out of memory within one step of V8's takes the process with it.
 */
const resourceLimits = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 16 }

/** One of the hands of a process. The thread begins with the first question. */
export class Hand {
  /** Somebody has it. */
  busy = false
  readonly #patience: number
  #thread: Worker | undefined
  #timer: NodeJS.Timeout | undefined
  /** Of whoever waits for the thread. */
  #tell: ((answer: Answer | undefined) => void) | undefined

  /** `patience`: milliseconds for one answer. */
  constructor(patience: number) {
    this.#patience = patience
  }

  /**
   * What the thread says; undefined when it is lost over the question. Not before the last one is answered. Rejects
   * when it cannot be asked. The bytes are gone then.
   */
  async ask(question: Question): Promise<Answer | undefined> {
    const thread = (this.#thread ??= this.#begin())
    thread.postMessage(question, [question.bytes.buffer as ArrayBuffer])
    thread.ref()
    // What has been said by then is heard first: it may be the loop that was late, and not the thread.
    this.#timer = setTimeout(() => setImmediate(() => this.#giveUp(thread)), this.#patience)
    return new Promise((tell) => (this.#tell = tell))
  }

  /** Nobody waits for it any more. */
  close(): void {
    clearTimeout(this.#timer)
    const thread = this.#thread
    this.#thread = undefined
    void thread?.terminate()
  }

  #begin(): Worker {
    // Source and compiled files stand in the same places, with other endings.
    const file = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
    const thread = new Worker(file, { name: 'translation', resourceLimits })
    // What one says that was given up belongs to nobody who asks now.
    thread.on('message', (answer: Answer) => void (thread === this.#thread && this.#answered(thread, answer)))
    // It ran out of memory: the next question has another thread.
    thread.on('error', () => {})
    thread.on('exit', () => this.#lost(thread))
    return thread
  }

  #answered(thread: Worker, answer: Answer | undefined): void {
    const tell = this.#tell
    this.#tell = undefined
    clearTimeout(this.#timer)
    // An idle thread keeps no process alive.
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
