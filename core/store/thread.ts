// The threads of the store: starts them, and keeps one that has finished for whoever is next.
import { EventEmitter, once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** The modules of this folder that run in threads. */
type Module = 'writer-thread' | 'reader-thread'

/** What a thread is told: to begin a service, which ends the one before; what that is asked; and to end it. */
export type Order = { begin: unknown } | { ask: unknown } | { end: true }

/** What a thread says: what its service says, and that it has ended. */
export type ThreadMessage = { said: unknown } | { ended: true }

/** Threads that serve nobody. A start takes some 80 ms of CPU, most of it Node's. */
const idle = new Map<Module, Worker>()

/**
 * One service in a thread of its own, for as long as it lasts; `over` comes once, with the reason when the thread died.
 */
export class Thread<Request, Message> extends EventEmitter<{ message: [Message]; over: [reason: string] }> {
  readonly #module: Module
  readonly #worker: Worker
  #over = false

  /** Begins the service of a module with what that wants to know. `held`: the process lasts until it is over. */
  constructor(module: Module, data: unknown, held: boolean) {
    super()
    this.#module = module
    const worker = (this.#worker = idle.get(module) ?? start(module))
    idle.delete(module)
    if (held) worker.ref()
    else worker.unref()
    worker.removeAllListeners()
    let reason = `the ${module} ended`
    worker.on('message', (report: ThreadMessage) => {
      if ('said' in report) this.emit('message', report.said as Message)
      else this.#finish()
    })
    worker.on('error', (error) => void (reason = String(error)))
    worker.on('exit', () => this.#tell(reason))
    this.#order({ begin: data })
  }

  ask(request: Request): void {
    this.#order({ ask: request })
  }

  /** What it says next. @throws Error when it died */
  next(): Promise<Message> {
    return new Promise((resolve, reject) => {
      this.once('message', resolve)
      this.once('over', (reason) => reject(new Error(reason)))
    })
  }

  /** Resolves when the service has let go of everything. */
  async end(): Promise<void> {
    if (this.#over) return
    const over = once(this, 'over')
    this.#order({ end: true })
    await over
  }

  /** Does not wait for what it is at. */
  async terminate(): Promise<void> {
    if (!this.#over) await this.#worker.terminate()
  }

  #order(order: Order): void {
    this.#worker.postMessage(order)
  }

  #finish(): void {
    const worker = this.#worker
    worker.removeAllListeners()
    // One is enough: stores are opened one after the other.
    if (idle.has(this.#module)) void worker.terminate()
    else {
      idle.set(this.#module, worker)
      worker.on('error', () => {})
      worker.on('exit', () => void (idle.get(this.#module) === worker && idle.delete(this.#module)))
      worker.unref()
    }
    this.#tell(`the ${this.#module} ended`)
  }

  #tell(reason: string): void {
    this.#over = true
    this.emit('over', reason)
  }
}

function start(module: Module): Worker {
  // Source and compiled files stand in the same places, with other endings.
  const file = new URL(`./${module}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  return new Worker(file, { name: module })
}
