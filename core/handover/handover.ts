// Hands over to the next process, on this machine and without a refused connection. Until that serves, nothing changes
// for anybody.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Engine } from '../exchange/engine.ts'
import type { Server } from '../clients/server.ts'
import { StoreInUse } from '../store/embedded/files/lock.ts'
import type { Services } from '../store/services.ts'
import type { Logger } from '../telling/log.ts'
import type { Estate, Place } from './messages.ts'
import type { Opened } from './opened.ts'
import { Successor } from './successor.ts'

/** What came of an upgrade. */
export type Upgraded =
  | {
      readonly ok: true
      /** The id of the process that serves now. */
      readonly pid: number
      readonly generation: number
      /** How long no process had the store, in milliseconds. */
      readonly gapMs: number
    }
  | { readonly ok: false; readonly reason: string }

/** What a hand-over needs of the process. */
export interface HandoverParts {
  /** The program and the arguments of the next process; undefined where this one was not started by the command. */
  command: readonly string[] | undefined
  /** The number of this process in the row of those that took each other's place. */
  generation: number
  place: Place
  opened: Opened
  services: Services
  engine: Pick<Engine, 'ids'>
  background: BackgroundWork
  shared: { leave(): Estate['shared'] }
  server: Pick<Server, 'descriptors' | 'leaveTo'>
  admin: { readonly descriptor: number; leave(): void } | undefined
  /** Ends, once the next process serves, what only one process may do: regular backups and alerts. */
  retire(): Promise<void>
  /** Whether the process is stopping. */
  phase: { readonly stopping: boolean }
  log: Logger
}

/** The hand-over of one process. */
export class Handover {
  /** Resolves when the next process serves, or when this one is {@link isStranded}. */
  readonly done: Promise<void>
  readonly #parts: HandoverParts
  readonly #settle: () => void
  #successor: Successor | undefined
  #isDone = false
  #isStranded = false

  constructor(parts: HandoverParts) {
    this.#parts = parts
    const { promise, resolve } = Promise.withResolvers<void>()
    this.done = promise
    this.#settle = resolve
  }

  /** Whether the next process serves. */
  get isDone(): boolean {
    return this.#isDone
  }

  /**
   * Whether nobody serves any more: the next process died after it had taken the place of this one, or before that, and
   * this one could not take the store back.
   */
  get isStranded(): boolean {
    return this.#isStranded
  }

  /** The process id of the next process, while it is being started and afterwards. */
  get pid(): number | undefined {
    return this.#successor?.pid
  }

  /** Starts the next process, and hands over to it. Resolves also when that is not possible, with the reason. */
  async run(reason: string): Promise<Upgraded> {
    const { log, generation, place, server, admin, command } = this.#parts
    const refusal = this.#refusal()
    if (refusal !== undefined || !command) {
      log.warn('an upgrade was refused', { reason: refusal })
      return { ok: false, reason: refusal! }
    }
    const next = generation + 1
    log.info('the next process is started', { reason, generation: next })
    const sockets = { clients: server.descriptors, ...(admin && { admin: admin.descriptor }) }
    const successor = (this.#successor = new Successor({ command, generation: next, sockets, place }))
    try {
      await successor.loaded()
    } catch (error) {
      return this.#fails(error as Error)
    }
    // A signal may have come meanwhile.
    if (this.#parts.phase.stopping) return this.#fails(new Error('this process is stopping'))
    return this.#handOver(successor, next)
  }

  async #handOver(successor: Successor, generation: number): Promise<Upgraded> {
    const { opened, engine, background, server, admin, shared, log } = this.#parts
    const began = performance.now()
    let path: string
    try {
      const estate = await opened.leave(successor.line, background, engine.ids)
      path = await successor.serving({ ...estate, shared: estate.shared ?? shared.leave() })
    } catch (error) {
      if (await this.#reclaim(successor)) return this.#fails(error as Error)
      this.#isStranded = true
      this.#settle()
      const { message } = error as Error
      return { ok: false, reason: `${message}; the store could not be taken back, so that this process ends too` }
    }
    const gapMs = Math.round(performance.now() - began)
    server.leaveTo(path)
    admin?.leave()
    this.#isDone = true
    void this.#parts.retire()
    void successor.line.closed.then(() => this.#lost(successor))
    log.info('the next process serves in the place of this one', { pid: successor.pid, generation, gap_ms: gapMs })
    this.#settle()
    return { ok: true, pid: successor.pid!, generation, gapMs }
  }

  /** Lets this process end: nothing more is to be said to the next one. */
  close(): void {
    const successor = this.#successor
    this.#successor = undefined
    successor?.release()
  }

  #refusal(): string | undefined {
    const { command, phase, server } = this.#parts
    if (process.platform === 'win32')
      return 'Windows cannot pass listening sockets to another process: stop the gateway and start it'
    if (!command) return 'this gateway was not started by the command `sluice start`, and cannot start another one'
    if (process.pid === 1) return 'this gateway is process 1 of a container, which ends with it: replace the container'
    if (this.#isDone) return `process ${this.pid} has taken the place of this one already: ask that one`
    if (this.#successor) return `an upgrade is under way already: process ${this.pid} is being started`
    if (phase.stopping) return 'the gateway is stopping'
    return server.descriptors.length === 0
      ? 'the sockets of its workers could not be copied, as its log says: stop the gateway and start it'
      : undefined
  }

  async #fails({ message }: Error): Promise<Upgraded> {
    await this.#successor?.kill()
    this.#successor = undefined
    this.#parts.log.error('the next process could not take the place of this one, which serves on', { reason: message })
    return { ok: false, reason: message }
  }

  /** The next process has gone before this one has ended. */
  async #lost(successor: Successor): Promise<void> {
    if (this.#successor !== successor) return
    this.#parts.log.error(
      'the process that had taken the place of this one is gone: this one takes the store back, and ends'
    )
    this.#isStranded = true
    await this.#reclaim(successor)
  }

  /**
   * Takes the store back from the next process, which is ended first. False when that fails: then everybody who waits
   * for it is told so.
   */
  async #reclaim(successor: Successor): Promise<boolean> {
    const { opened, services, background, log } = this.#parts
    try {
      await successor.kill()
      await opened.reclaim(successor.line, { services, background, log })
      return true
    } catch (error) {
      // One that came later may have it, and serve.
      if (error instanceof StoreInUse) this.#isStranded = false
      successor.line.fail()
      log.error('the store could not be taken back: requests under way are ended by the next start', {
        error: (error as Error).message
      })
      return false
    }
  }
}
