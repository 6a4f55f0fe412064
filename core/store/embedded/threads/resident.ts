// A service of the store that runs in the thread of its owner, for as long as there is too little to do for a thread.
import { EventEmitter } from 'node:events'
import type { Service } from './service.ts'

/** The longest delay of a timer, in milliseconds. */
const longest = 2 ** 31 - 1

/** To its owner it looks like a thread that never dies: messages come one by one, later than what causes them. */
export class Resident<Request, Message> extends EventEmitter<{ message: [Message]; over: [reason: string] }> {
  readonly #service: Service<Request>
  /** As a thread does, it keeps the process from ending before it is over. */
  readonly #hold: NodeJS.Timeout
  /** Messages that were not emitted yet. */
  readonly #waiting: Message[] = []

  /** `begin` makes the service, which sends its messages with `say`. */
  constructor(begin: (say: (message: Message) => void) => Service<Request>) {
    super()
    this.#service = begin((message) => {
      if (this.#waiting.push(message) === 1) process.nextTick(this.#deliver)
    })
    this.#hold = setInterval(() => {}, longest)
  }

  ask(request: Request): void {
    this.#service.ask(request)
  }

  /** Resolves with the next message. */
  next(): Promise<Message> {
    return new Promise((resolve) => this.once('message', resolve))
  }

  /** Ends the service, which has released everything at once. It tells nothing any more. */
  end(): Promise<void> {
    clearInterval(this.#hold)
    this.removeAllListeners()
    this.#service.end()
    return Promise.resolve()
  }

  /** Emits a message. Who waited for it alone by a promise listens to the next one, which comes later. */
  readonly #deliver = (): void => {
    this.emit('message', this.#waiting[0]!)
    this.#waiting.shift()
    if (this.#waiting.length > 0) setImmediate(this.#deliver)
  }
}
