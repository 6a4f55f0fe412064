// The supervisor of a gateway of many workers: it has the store and the workers, and stands where the server of a
// process stands that serves its clients itself.
import { once } from 'node:events'
import { Server as NetServer } from 'node:net'
import type { Settings, StoreSettings } from '../catalogue/settings.ts'
import type { FilePlace } from '../catalogue/store-place.ts'
import { bind } from '../clients/bind.ts'
import type { Address, Server, ServerFigures } from '../clients/server.ts'
import type { Progress } from '../exchange/progress.ts'
import { storeOptionsOf } from '../handover/custody.ts'
import type { Opened } from '../handover/opened.ts'
import type { SentConfig } from '../program/configuration.ts'
import { openWorkerStore } from '../store/shared/worker-store.ts'
import type { WorkerStore } from '../store/shared/worker-store.ts'
import type { Logger } from '../telling/log.ts'
import type { MetricSnapshot } from '../telling/metrics.ts'
import { Crew } from './crew.ts'
import { Figures } from './figures.ts'
import { Place, withoutHandover } from './place.ts'
import { joinedHealth } from './health.ts'
import type { Health } from './health.ts'
import type { Member } from './member.ts'
import type { GatewayOrder } from './order.ts'

/** Of sets of limits and of balances there may be so many at the same time. What is not used takes no memory. */
const [sets, cells] = [2 ** 17, 2 ** 18]
/** How long workers have to say what they are at, in milliseconds. */
const patience = 200
/** How much longer than their exchanges workers may take to leave, in milliseconds. */
const farewell = 10_000

/** What a supervisor is made with. */
export interface SupervisionOptions {
  readonly workers: number
  /** The module of the workers' threads. */
  readonly module: URL
  readonly env: NodeJS.ProcessEnv
  readonly store: StoreSettings & FilePlace
  readonly listen: Settings['listen']
  /** The configuration that the workers begin with. */
  readonly config: SentConfig
  readonly log: Logger
}

/** The supervisor. */
export class Supervision implements Pick<Server, 'listen' | 'certify' | 'drain' | 'close' | 'figures'> {
  readonly opened: Opened
  readonly handover = withoutHandover
  readonly #options: SupervisionOptions
  readonly #crew: Crew
  readonly #figures: Figures
  /** What each worker has last said. */
  readonly #health = new Map<Member, Health>()
  /** The configuration in use. */
  #config: SentConfig
  #address: Address | undefined
  #drained: Promise<{ cut: number }> | undefined

  /**
   * Opens the store. No worker is started yet.
   * @throws Error when it cannot be opened
   */
  static async open(options: SupervisionOptions): Promise<Supervision> {
    const sizes = { seats: options.workers + 1, sets, cells }
    return new Supervision(options, await openWorkerStore(storeOptionsOf(options.store, options.log), sizes))
  }

  private constructor(options: SupervisionOptions, store: WorkerStore) {
    const { workers, module, env, log } = options
    this.#options = options
    this.opened = new Place(store)
    this.#config = options.config
    const crew = new Crew(workers, {
      module,
      env,
      recruit: (number) => {
        const place = store.give()
        const { host, port } = this.#address ?? options.listen
        const order: GatewayOrder = { config: this.#config, host, port, workers, place }
        return {
          number,
          seat: place.seat,
          order,
          transfer: [place.port],
          served: (member) => ({
            report: (snapshot: readonly MetricSnapshot[], health: Health) => {
              this.#figures.report(member, snapshot)
              if (!member.over) this.#health.set(member, health)
            }
          })
        }
      },
      bringHome: async (member) => {
        this.#figures.ended(member)
        this.#health.delete(member)
        try {
          await store.leave(member.seat)
        } catch (error) {
          log.error('what a worker has left could not be brought home: the next start does it', {
            worker: member.number,
            error: String(error)
          })
        }
      },
      hanging: () => store.hanging(),
      log
    })
    this.#crew = crew
    this.#figures = new Figures((ms) => crew.ask(ms, 'metrics'))
  }

  /** What the workers have counted. */
  metrics(): Promise<readonly (readonly MetricSnapshot[])[]> {
    return this.#figures.all()
  }

  /** The health of channels as all threads see it; `own`: as this one does. */
  health(own: Health): Health {
    return joinedHealth([own, ...this.#health.values()])
  }

  /** What the workers are at; with a tenant, what they are at for that alone. */
  async underWay(tenant: string | null | undefined): Promise<readonly Progress[]> {
    const { answers } = await this.#crew.ask<readonly Progress[]>(patience, 'underWay', tenant)
    return [...answers.values()].flat()
  }

  /** Why fewer serve than should. */
  get reasons(): readonly string[] {
    const { away, size } = this.#crew
    return away.length === 0 ? [] : [`workers: ${size - away.length} of ${size} serve`]
  }

  /**
   * Starts the workers, each with a server of its own on the port.
   * @throws Error when one cannot, or somebody else has the port
   */
  async listen(fd?: number): Promise<Address> {
    if (fd !== undefined)
      throw new Error(
        'a socket for clients was passed, which several workers cannot share: pass none, or set workers to 1'
      )
    const { listen } = this.#options
    // Workers share the port with whoever wants to, so that others have it is found out here.
    if (listen.port !== 0) {
      const alone = new NetServer()
      await bind(alone, listen, 'listen')
      alone.close()
      await once(alone, 'close')
    }
    await this.#crew.start((said) => (this.#address = said as Address))
    return this.#address!
  }

  /** Makes a change of the configuration in all workers or in none. `commit` makes it in this thread. */
  change(config: SentConfig, commit: () => void): Promise<void> {
    return this.#crew.change(config, () => {
      commit()
      this.#config = config
    })
  }

  /** Workers have the certificate of the configuration that they take over. */
  certify(): void {}

  /** Clients have their connections with the workers. */
  get figures(): ServerFigures {
    return {
      connections: { http1: 0, http2: 0, undecided: 0 },
      active: 0,
      refusedConnections: 0,
      refusedRequests: 0
    }
  }

  drain(timeoutMs: number): Promise<{ cut: number }> {
    if (this.#drained && timeoutMs === 0) this.#crew.tell('hurry')
    return (this.#drained ??= this.#drain(timeoutMs))
  }

  /** Ends the workers at once. */
  async close(): Promise<void> {
    await this.drain(0)
  }

  async #drain(timeoutMs: number): Promise<{ cut: number }> {
    const left = await this.#crew.close<{ cut: number }>(timeoutMs + farewell, timeoutMs)
    return { cut: left.reduce((sum, { cut }) => sum + cut, 0) }
  }
}
