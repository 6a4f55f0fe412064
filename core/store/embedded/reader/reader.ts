// The main thread's side of the reader thread: asks questions about the database.
import type { Answered, NumberedQuestion, ReaderQuestion, ReaderReply } from './reader-thread.ts'
import { Thread } from '../threads/thread.ts'

/** How long closing waits for replies, in milliseconds. */
const patienceMs = 1000

/** The reader of one database. The thread starts with the first question, and again after it died. */
export class Reader {
  readonly #file: string
  readonly #waiting = new Map<number, PromiseWithResolvers<ReaderReply>>()
  #thread: Thread<NumberedQuestion, Answered> | undefined
  #last = 0
  #closed = false

  constructor(file: string) {
    this.#file = file
  }

  /**
   * Asks a question. The reply is from the database's last transaction.
   * @throws Error when the database cannot be read, or the store is closed
   */
  async ask<Kind extends ReaderQuestion['kind']>(
    question: Extract<ReaderQuestion, { kind: Kind }>
  ): Promise<Extract<ReaderReply, { kind: Kind }>> {
    // A thread that is begun now would never be ended, and keep the process from ending.
    if (this.#closed) throw new Error(`${this.#file} could not be read: the store is closed`)
    this.#thread ??= this.#start()
    const id = ++this.#last
    const waiting = Promise.withResolvers<ReaderReply>()
    this.#waiting.set(id, waiting)
    this.#thread.ask({ id, question })
    const reply = await waiting.promise
    if (reply.kind === 'error') throw new Error(`${this.#file} could not be read: ${reply.error}`)
    return reply as Extract<ReaderReply, { kind: Kind }>
  }

  /** Resolves when no question waits for its reply any more, or after a second. */
  async quiet(): Promise<void> {
    const waiting = Promise.allSettled([...this.#waiting.values()].map(({ promise }) => promise))
    let timer: NodeJS.Timeout | undefined
    await Promise.race([waiting, new Promise<void>((resolve) => (timer = setTimeout(resolve, patienceMs)))])
    clearTimeout(timer)
  }

  /** Ends the thread. Questions without a reply yet are rejected. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#waiting.size > 0) await this.#thread?.terminate()
    else await this.#thread?.end()
  }

  #start(): Thread<NumberedQuestion, Answered> {
    const thread = new Thread<NumberedQuestion, Answered>('reader-thread', this.#file, false)
    thread.on('message', ({ id, reply }) => {
      this.#waiting.get(id)?.resolve(reply)
      this.#waiting.delete(id)
    })
    thread.on('over', (reason) => {
      this.#thread = undefined
      for (const waiting of this.#waiting.values()) waiting.reject(new Error(reason))
      this.#waiting.clear()
    })
    return thread
  }
}
