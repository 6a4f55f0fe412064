// The main thread's side of the reader thread: questions that are answered from the database, beside its writer.
import type { Worker } from 'node:worker_threads'
import type { ReaderQuestion, ReaderReply } from './reader-thread.ts'
import { startThread } from './thread.ts'

/** Asks what is in one database; the thread starts with the first question, and anew when it died. */
export class Reader {
  readonly #file: string
  readonly #waiting = new Map<number, PromiseWithResolvers<ReaderReply>>()
  #thread: Worker | undefined
  #last = 0

  constructor(file: string) {
    this.#file = file
  }

  /** As of the database's last transaction. @throws Error when it cannot be read */
  async ask<Kind extends ReaderQuestion['kind']>(question: Extract<ReaderQuestion, { kind: Kind }>): Promise<Extract<ReaderReply, { kind: Kind }>> {
    this.#thread ??= this.#start()
    const id = ++this.#last
    const waiting = Promise.withResolvers<ReaderReply>()
    this.#waiting.set(id, waiting)
    this.#thread.postMessage({ id, question })
    const reply = await waiting.promise
    if (reply.kind === 'error') throw new Error(`${this.#file} could not be read: ${reply.error}`)
    return reply as Extract<ReaderReply, { kind: Kind }>
  }

  async close(): Promise<void> {
    await this.#thread?.terminate()
  }

  #start(): Worker {
    const thread = startThread('reader-thread', this.#file)
    thread.unref()
    thread.on('message', ({ id, reply }: { id: number; reply: ReaderReply }) => {
      this.#waiting.get(id)?.resolve(reply)
      this.#waiting.delete(id)
    })
    let reason = 'the reader thread ended'
    thread.on('error', (error) => void (reason = String(error)))
    thread.on('exit', () => {
      this.#thread = undefined
      for (const waiting of this.#waiting.values()) waiting.reject(new Error(reason))
      this.#waiting.clear()
    })
    return thread
  }
}
