// A gateway that runs, as those see it who started it: its addresses, reloads, and its end.
import type { Config } from '../catalogue/settings.ts'
import type { Server } from '../clients/server.ts'
import type { Upgraded } from '../handover/handover.ts'
import type { Engine } from '../exchange/engine.ts'
import type { ConfigReader } from './configuration.ts'
import type { Generations } from './generation.ts'
import type { Reloader, ReloadResult } from './reload.ts'
import type { Stops } from './stops.ts'

/** A running gateway. */
export interface Gateway {
  /** The address of the data listener, such as `http://127.0.0.1:8080`. Clients add `/v1` to it. */
  readonly url: string
  /** Undefined when the file turns the admin listener off. */
  readonly adminUrl: string | undefined
  /** The configuration in use. */
  readonly config: Config
  /**
   * The files and folders that the latest reading used, including gateway.yaml: SHA-256 by path, empty for what could
   * not be read, and of the names in a folder, whose path ends in a slash. A reload is due when one of them changes.
   */
  readonly files: ReadonlyMap<string, string>
  /** The number of this process in the row of those that took each other's place; the first is 1. */
  readonly generation: number
  /**
   * Resolves when another process serves in the place of this one, or none can serve any more: see {@link stranded}.
   * This one must then be closed with `drain`.
   */
  readonly replaced: Promise<void>
  /** Whether an upgrade failed in such a way that nobody serves any more, or will when this process has ended. */
  readonly stranded: boolean
  /** Starts the next process, and hands over to it. Resolves also when that fails: then this one serves on. */
  upgrade(reason: string): Promise<void>
  /** Reads the file again. Resolves also when the file is refused, with the problems. */
  reload(reason: string): Promise<ReloadResult>
  /**
   * Stops the gateway. With `drain`, it serves on for `limits.lame_duck`, and then exchanges may end within
   * `limits.drain_timeout`; otherwise they are ended at once. All are settled. Calling it without `drain` while it
   * stops ends the waiting.
   */
  close(options?: { drain?: boolean }): Promise<{ cut: number }>
}

/** The services that a running gateway uses after its start. */
export interface RunningParts {
  reader: ConfigReader
  generations: Generations
  reloader: Reloader
  engine: Engine
  server: Pick<Server, 'drain'>
  stops: Stops
  phase: Phase
  /** How this process hands over to the next one. */
  handover: {
    readonly done: Promise<void>
    readonly isDone: boolean
    readonly isStranded: boolean
    run(reason: string): Promise<unknown>
    close(): void
  }
  /** The number of this process in the row of those that took each other's place. */
  generation: number
  /** Gives up what others who share the store may go on with. */
  giveUp(): Promise<void>
}

/** How far a gateway has come, for those who tell others. */
export interface Phase {
  /** Whether it stops: whoever spreads requests should send it none. */
  stopping: boolean
  /** Starts the next process and hands over to it; resolves with what came of it. */
  upgrade(reason: string): Promise<Upgraded>
}

/** The one implementation. */
export class RunningGateway implements Gateway {
  readonly url: string
  readonly adminUrl: string | undefined
  readonly #parts: RunningParts
  #closed: Promise<{ cut: number }> | undefined
  /** Ends the time in which the gateway serves on although it stops. */
  #hurry: () => void = () => {}

  constructor(url: string, adminUrl: string | undefined, parts: RunningParts) {
    this.url = url
    this.adminUrl = adminUrl
    this.#parts = parts
  }

  get config(): Config {
    return this.#parts.generations.current.config
  }

  get files(): ReadonlyMap<string, string> {
    return this.#parts.reader.files
  }

  get generation(): number {
    return this.#parts.generation
  }

  get replaced(): Promise<void> {
    return this.#parts.handover.done
  }

  get stranded(): boolean {
    return this.#parts.handover.isStranded
  }

  async upgrade(reason: string): Promise<void> {
    await this.#parts.handover.run(reason)
  }

  reload(reason: string): Promise<ReloadResult> {
    return this.#parts.reloader.reload(reason)
  }

  close({ drain = false } = {}): Promise<{ cut: number }> {
    const { engine, server } = this.#parts
    this.#parts.phase.stopping = true
    if (!drain) engine.refuse()
    if (this.#closed && !drain) {
      this.#hurry()
      void server.drain(0)
      engine.stop()
    }
    return (this.#closed ??= this.#close(drain))
  }

  async #close(drain: boolean): Promise<{ cut: number }> {
    const { engine, server, stops, handover } = this.#parts
    const { lameDuck, drainTimeout } = this.config.settings.limits
    // Whoever has taken its place serves instead, and without its store it can serve nobody.
    if (drain && lameDuck > 0 && !handover.isDone && !handover.isStranded) await this.#serveOn(lameDuck)
    if (drain) engine.retire()
    if (drain && !handover.isDone) void this.#parts.giveUp()
    const patience = drain ? drainTimeout : 0
    // Exchanges that go on without a client have as much time as the others.
    const late = setTimeout(() => engine.stop(), patience)
    const result = await server.drain(patience, handover.isDone)
    if (!drain) engine.stop()
    await engine.idle()
    clearTimeout(late)
    await stops.run()
    handover.close()
    return result
  }

  async #serveOn(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#hurry = resolve
      timer = setTimeout(resolve, ms)
    })
    clearTimeout(timer)
  }
}
