// The process that is to take the place of this one: starts it, and hands over to it.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Sockets } from '../clients/inherited.ts'
import { Line } from '../store/distant/line.ts'
import type { Port } from '../store/distant/line.ts'
import { generationVariable } from './messages.ts'
import type { Estate, FromNew, FromOld, Place } from './messages.ts'

/**
 * How long the next process may take to load everything, which on a starved machine is many times the usual second and
 * disturbs nobody, and to open the store, for which requests wait; in milliseconds.
 */
const loadingMs = 90_000
const openingMs = 30_000

/** What the next process is started with. */
export interface SuccessorOptions {
  /** The program and its arguments. */
  command: readonly string[]
  generation: number
  /** The file descriptors of the listening sockets. */
  sockets: Sockets
  place: Place
}

/** A process that was started to take the place of this one. */
export class Successor {
  readonly line: Line
  readonly pid: number | undefined
  readonly #child: ChildProcess
  readonly #loaded = Promise.withResolvers<void>()
  readonly #serving = Promise.withResolvers<string>()

  /** Starts it. */
  constructor({ command: [program, ...args], generation, sockets, place }: SuccessorOptions) {
    const { clients = [], admin } = sockets
    const passed = admin === undefined ? clients : [...clients, admin]
    const names = [...clients.map(() => 'clients'), ...(admin === undefined ? [] : ['admin'])]
    const child = spawn(program!, args, {
      stdio: ['ignore', 'inherit', 'inherit', ...passed, 'ipc'],
      serialization: 'advanced',
      env: {
        ...process.env,
        LISTEN_FDS: String(passed.length),
        LISTEN_FDNAMES: names.join(':'),
        [generationVariable]: String(generation)
      }
    })
    this.#child = child
    this.pid = child.pid
    this.line = new Line(child as Port)
    const failed = (reason: string): void => {
      const error = new Error(reason)
      this.#loaded.reject(error)
      this.#serving.reject(error)
    }
    for (const { promise } of [this.#loaded, this.#serving] as const) (promise as Promise<unknown>).catch(() => {})
    this.line.onSaid = (message) => {
      const said = message as FromNew
      if (said.kind === 'loaded') this.#loaded.resolve()
      else if (said.kind === 'serving') this.#serving.resolve(said.path)
      else failed(said.reason)
    }
    child.on('error', (error) => failed(`it could not be started: ${error.message}`))
    child.on('exit', (code, signal) =>
      failed(`it ended with ${signal ?? `exit code ${code}`}: its last lines on standard error say why`)
    )
    this.#say({ kind: 'place', place })
  }

  /**
   * Resolves when it has loaded everything that it can load without the store.
   * @throws Error saying why it cannot take the place
   */
  loaded(): Promise<void> {
    return within(this.#loaded.promise, loadingMs, `it was not loaded within ${loadingMs / 1000} seconds`)
  }

  /**
   * Leaves the store to it. Resolves when it serves, with the path of its socket for what still comes on open
   * connections.
   * @throws Error saying why it does not
   */
  serving(estate: Estate): Promise<string> {
    this.#say({ kind: 'estate', estate })
    return within(this.#serving.promise, openingMs, `it has not opened the store within ${openingMs / 1000} seconds`)
  }

  /** Ends it, as it cannot take the place. Resolves when it is gone. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.pid === undefined) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  /** Lets this process end before it. */
  release(): void {
    this.#child.unref()
    this.line.hangUp()
  }

  #say(message: FromOld): void {
    this.line.say(message)
  }
}

async function within<T>(promise: Promise<T>, ms: number, reason: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_resolve, reject) => (timer = setTimeout(() => reject(new Error(reason)), ms)))
    ])
  } finally {
    clearTimeout(timer)
  }
}
