// A service of the store that runs in the thread of its owner, for as long as there is too little to do for a thread.
import { EventEmitter } from 'node:events'
import type { Service } from './service.ts'

/** The longest delay of a timer, in milliseconds. */
const longest = 2 ** 31 - 1

/** To its owner it looks like a thread that never dies: messages come later than what causes them. */
export class Resident<Request, Message> extends EventEmitter<{ message: [Message]; over: [reason: string] }> {
  readonly #service: Service<Request>
  /** As a thread does, it keeps the process from ending before it is over. */
  readonly #hold = setInterval(() => {}, longest)

  /** `begin` makes the service, which sends its messages with `say`. */
  constructor(begin: (say: (message: Message) => void) => Service<Request>) {
    super()
    this.#service = begin((message) => process.nextTick(() => this.emit('message', message)))
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
}
