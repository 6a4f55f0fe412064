// The threads of the store: starts them, and keeps a finished one for the next store.
import { EventEmitter, once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** Where the modules are that run in threads, without their endings. */
const modules = { 'writer-thread': '../writer/writer-main', 'reader-thread': '../reader/reader-thread' } as const

type Module = keyof typeof modules

/** A message to a thread: to begin a service, to ask the service something, or to end it. */
export type Order = { begin: unknown } | { ask: unknown } | { end: true }

/** A message from a thread: that it has loaded its module, one of its service, or that the service has ended. */
export type ThreadMessage = { loaded: true } | { said: unknown } | { ended: true }

/**
 * Threads without a service, at most one for each module. They are reused because starting one takes about 80 ms of
 * CPU.
 */
const idle = new Map<Module, Worker>()

/** A service that runs in a thread of its own. `over` is emitted once, when it has ended or its thread has died. */
export class Thread<Request, Message> extends EventEmitter<{ message: [Message]; over: [reason: string] }> {
  readonly #module: Module
  readonly #worker: Worker
  #over = false

  /**
   * Begins the service of a module. `data` is passed to it. With `held` the process does not exit before the service is
   * over.
   */
  constructor(module: Module, data: unknown, held: boolean) {
    super()
    this.#module = module
    const worker = (this.#worker = idle.get(module) ?? start(module))
    idle.delete(module)
    if (held) worker.ref()
    else worker.unref()
    forget(worker)
    let reason = `the ${module} ended`
    worker.on('message', (report: ThreadMessage) => {
      if ('said' in report) this.emit('message', report.said as Message)
      else if ('ended' in report) this.#finish()
    })
    worker.on('error', (error) => void (reason = String(error)))
    worker.on('exit', () => this.#tell(reason))
    this.#order({ begin: data })
  }

  ask(request: Request): void {
    this.#order({ ask: request })
  }

  /**
   * Resolves with the next message.
   * @throws Error when the thread died
   */
  next(): Promise<Message> {
    return new Promise((resolve, reject) => {
      this.once('message', resolve)
      this.once('over', (reason) => reject(new Error(reason)))
    })
  }

  /** Ends the service. Resolves when it has released everything. */
  async end(): Promise<void> {
    if (this.#over) return
    const over = once(this, 'over')
    this.#order({ end: true })
    await over
  }

  /** Ends the thread without waiting for its current work. */
  async terminate(): Promise<void> {
    if (!this.#over) await this.#worker.terminate()
  }

  #order(order: Order): void {
    this.#worker.postMessage(order)
  }

  #finish(): void {
    const worker = this.#worker
    forget(worker)
    // One idle thread is enough, because stores are opened one after the other.
    if (idle.has(this.#module)) void worker.terminate()
    else rest(this.#module, worker)
    this.#tell(`the ${this.#module} ended`)
  }

  #tell(reason: string): void {
    this.#over = true
    this.emit('over', reason)
  }
}

/**
 * Starts the threads of a store that is to be opened later, so that opening it takes no longer than it must. Resolves
 * when they have loaded.
 */
export async function warmThreads(): Promise<void> {
  const loading = (Object.keys(modules) as Module[]).map(async (module) => {
    if (idle.has(module)) return
    const worker = start(module)
    await once(worker, 'message')
    rest(module, worker)
  })
  await Promise.all(loading)
}

/** Takes our listeners away. Without names that would take away those by which a worker hears of its own listeners. */
function forget(worker: Worker): void {
  for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event)
}

/** Keeps a thread without a service, which holds no process back. */
function rest(module: Module, worker: Worker): void {
  forget(worker)
  idle.set(module, worker)
  worker.on('error', () => {})
  worker.on('exit', () => void (idle.get(module) === worker && idle.delete(module)))
  worker.unref()
}

function start(module: Module): Worker {
  // Sources and compiled files lie in the same places and differ only in their endings.
  const file = new URL(`${modules[module]}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  return new Worker(file, { name: module })
}
