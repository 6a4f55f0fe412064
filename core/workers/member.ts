// One worker as the supervisor has it: its thread, the line to it, and how far it has come.
import { MessageChannel } from 'node:worker_threads'
import type { Transferable, Worker } from 'node:worker_threads'
import { Line } from '../store/distant/line.ts'
import type { Served } from '../store/distant/line.ts'
import { threadPort } from '../store/distant/thread-port.ts'
import type { Said, WorkerData } from './messages.ts'
import { thrownStack } from '../thrown.ts'

/** What the thread of a worker is started with. */
export interface Recruit {
  /** Its place among the workers, from 1 on. One that is started in the place of another has the number of that. */
  readonly number: number
  /** Its seat in the memory that the threads share. */
  readonly seat: number
  /** What its module is given. It can be sent to a thread, with what is in it to be transferred. */
  readonly order: unknown
  readonly transfer?: readonly Transferable[]
  /** What it may ask for. */
  served(member: Member): Served
}

/** How long a worker may take until it serves, in milliseconds. It disturbs nobody. */
const startingMs = 90_000

/** A worker, from the start of its thread to the end of that. */
export class Member {
  readonly number: number
  /** Undefined once it has handed over: it has none any more. */
  seat: number | undefined
  readonly line: Line
  /** Resolves when the thread has ended, with why. */
  readonly ended: Promise<string>
  /** Whether it has said that it serves, and when, in Unix milliseconds. */
  serves = false
  since: number | undefined
  /** What it said then. */
  said: unknown
  /** Whether its thread has ended. */
  over = false
  readonly #thread: Worker
  readonly #serving = Promise.withResolvers<unknown>()
  /** Why it was ended by the supervisor. */
  #reason: string | undefined

  /** Gives the thread its order. `hear`: what it says beside the calls. */
  constructor(thread: Worker, recruit: Recruit, hear: (said: Said) => void) {
    const { number, seat, order, transfer = [] } = recruit
    this.number = number
    this.seat = seat
    const { port1, port2 } = new MessageChannel()
    const data: WorkerData = { number, port: port2, order }
    thread.postMessage(data, [port2, ...transfer])
    this.#thread = thread
    this.line = new Line(threadPort(port1))
    this.line.onSaid = (message) => {
      const said = message as Said
      if (said.kind === 'serves') {
        this.serves = true
        this.since = Date.now()
        this.said = said.with
        this.#serving.resolve(said.with)
      } else if (said.kind === 'fails') void this.end(said.reason)
      else hear(said)
    }
    this.line.serve(recruit.served(this))
    this.#serving.promise.catch(() => {})
    let fault: string | undefined
    thread.on('error', (error: unknown) => (fault = thrownStack(error)))
    this.ended = new Promise((resolve) => {
      thread.on('exit', (code) => {
        // What it had said is heard before, as its port closes behind all messages.
        void this.line.closed.then(() => {
          const why = this.#reason ?? fault ?? `its thread ended with exit code ${code}`
          this.over = true
          this.serves = false
          this.line.fail()
          this.#serving.reject(new Error(why))
          resolve(why)
        })
      })
    })
  }

  /**
   * Resolves with what it says when it serves.
   * @throws Error when it ends before, or takes too long, which ends it
   */
  async serving(): Promise<unknown> {
    const timer = setTimeout(() => void this.end(`it did not serve within ${startingMs / 1000} seconds`), startingMs)
    try {
      return await this.#serving.promise
    } finally {
      clearTimeout(timer)
    }
  }

  /** Ends the thread wherever it is. Resolves when it has ended. */
  async end(reason: string): Promise<void> {
    if (this.over) return
    this.#reason ??= reason
    await this.#thread.terminate()
    await this.ended
  }
}
