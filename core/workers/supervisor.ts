// The supervisor as a worker sees it, in the thread of the worker.
import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { Line } from '../store/distant/line.ts'
import type { Served } from '../store/distant/line.ts'
import { threadPort } from '../store/distant/thread-port.ts'
import { tellable } from '../telling/log.ts'
import type { LogFields, Logger, LogLevel } from '../telling/log.ts'
import type { Said, WorkerData } from './messages.ts'
import { thrownMessage } from '../thrown.ts'

/** What a worker does when it is asked to. */
export interface Duties extends Served {
  /**
   * Gets ready for a change, and changes nothing yet.
   * @throws Error when it cannot make it
   */
  prepare(change: never): Promise<void>
  /** Makes the change that it is ready for. */
  swap(): void
  /** Forgets the change that it is ready for. */
  drop(): void
  /** Ends what it does, by its own means. Its thread is ended when this has resolved. */
  leave(...args: never[]): Promise<unknown>
}

/** The supervisor of this thread. */
export class Supervisor<Order> {
  readonly line: Line
  /** The place of this worker among all, from 1 on. */
  readonly number: number
  readonly order: Order
  /** Writes to the log of the supervisor. */
  readonly log: Logger

  private constructor({ port, number, order }: WorkerData<Order>) {
    this.line = new Line(threadPort(port))
    this.number = number
    this.order = order
    this.log = this.#logger({})
  }

  /** The one that has started this thread, whose code is loaded. Resolves when it gives an order. */
  static async find<Order>(): Promise<Supervisor<Order>> {
    const port = parentPort!
    port.postMessage('loaded')
    const [data] = (await once(port, 'message')) as [WorkerData<Order>]
    return new Supervisor(data)
  }

  /** Says that this worker serves, and does what it is asked to from now on. */
  serve(duties: Duties, said: unknown): void {
    this.line.serve(duties)
    this.#say({ kind: 'serves', with: said })
  }

  /** Says why this worker cannot serve. */
  fail(error: unknown): void {
    this.#say({ kind: 'fails', reason: thrownMessage(error) })
  }

  #say(said: Said): void {
    this.line.say(said)
  }

  #logger(base: LogFields): Logger {
    const at =
      (level: LogLevel) =>
      (message: string, own?: LogFields): void => {
        const fields = { ...base, ...own }
        try {
          this.#say({ kind: 'log', level, message, fields })
        } catch {
          // Something that cannot be sent to another thread, such as a function, is told as a text.
          this.#say({ kind: 'log', level, message, fields: tellable(message, fields).attributes })
        }
      }
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (fields) => this.#logger({ ...base, ...fields })
    }
  }
}
