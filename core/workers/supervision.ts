// The supervisor of a gateway of many workers: it has the store and the workers, and stands where the server of a
// process stands that serves its clients itself.
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { Server as NetServer } from 'node:net'
import { commonsOf, leavePots, makePots } from '../allowance.ts'
import type { Commons } from '../allowance.ts'
import type { WorkerLoad, WorkerPlace } from '../admin/api/worker-place.ts'
import type { EngineView, EngineViews, Told } from '../admin/requests/engine-view.ts'
import type { Explanation } from '../admin/requests/explanation.ts'
import type { Settings, StoreSettings } from '../catalogue/settings.ts'
import type { SharedPlace } from '../catalogue/store-place.ts'
import { bind } from '../clients/bind.ts'
import type { BoundSocket } from '../clients/bind.ts'
import { copiesOf } from '../clients/copies.ts'
import type { Address, Server, ServerFigures } from '../clients/server.ts'
import type { Credentials } from '../credentials/credentials.ts'
import type { Secret } from '../credentials/grant.ts'
import type { Estate } from '../handover/messages.ts'
import type { Opened } from '../handover/opened.ts'
import type { Turns } from '../exchange/background/pool.ts'
import type { SentConfig } from '../program/configuration.ts'
import { servedCache } from '../store/distant/cache.ts'
import { MemoryCache } from '../store/memory/cache.ts'
import type { RequestTap } from '../store/request-tap.ts'
import type { Measured, MeasureRelay } from '../telemetry/measures.ts'
import type { Logger } from '../telling/log.ts'
import type { MetricSnapshot, Metrics } from '../telling/metrics.ts'
import { Crew } from './crew.ts'
import type { CrewPlace } from './crew.ts'
import { Figures } from './figures.ts'
import { joinedHealth } from './health.ts'
import type { Health } from './health.ts'
import type { Member } from './member.ts'
import type { GatewayOrder, Serving } from './order.ts'
import type { Reserve } from './reserve.ts'
import { SeatedStore } from './seated-store.ts'
import { Sockets } from './sockets.ts'
import { TurnsOfWorker } from './turns.ts'
import type { WorkersStore } from './workers-store.ts'
import { thrownText } from '../thrown.ts'

/** How long workers have to say what they are at, in milliseconds. */
const patience = 200
/** How long they have to explain a request, for which plugins may have to ask somebody. */
const explaining = 5000
/** How much longer than their exchanges workers may take to leave, in milliseconds. */
const farewell = 10_000

/** What a supervisor is made with. */
export interface SupervisionOptions {
  readonly workers: number
  readonly threads: Reserve
  readonly store: StoreSettings
  readonly listen: Settings['listen']
  readonly limits: Pick<Settings['limits'], 'connections' | 'bodyMemory' | 'cacheMemory' | 'drainTimeout'>
  /** The configuration that the workers begin with. */
  readonly config: SentConfig
  readonly log: Logger
  /** Is told of the requests that workers have finished. */
  readonly finished: RequestTap
  /** Is told of what workers have measured for a collector. */
  readonly relay: MeasureRelay
  /** What the process before has left. */
  readonly estate: Estate | undefined
  /** Renews what workers send to upstreams. */
  readonly credentials: Pick<Credentials, 'lend' | 'onGrant'>
}

/** The supervisor. */
export class Supervision implements Pick<
  Server,
  'listen' | 'certify' | 'drain' | 'close' | 'figures' | 'descriptors' | 'leaveTo' | 'takeFrom'
> {
  /** The store as this thread has it. */
  readonly opened: Opened
  /** The ledger for who watches budgets. */
  readonly watched: WorkersStore['watched']
  /** That of plugins in all threads. */
  readonly cache: MemoryCache
  /** Whose turn it is to go on without a client, in all threads. Set before the workers start. */
  turns!: Turns
  /** What this thread may use of what all may. */
  readonly commons: Commons
  readonly #options: SupervisionOptions
  readonly #crew: Crew
  readonly #figures: Figures
  /** What each worker has last said. */
  readonly #health = new Map<Member, Health>()
  /** What each has taken of the turns. */
  readonly #turns = new Map<Member, TurnsOfWorker>()
  /** The configuration in use. */
  #config: SentConfig
  #address: Address | undefined
  #sockets: Sockets
  /** The places of whose sockets copies are being made. */
  readonly #copied = new Set<number>()
  #listens = false
  /** Where the processes before connect for their clients, and the worker that takes that. */
  #inner: string | undefined
  #taker: Member | undefined
  #drained: Promise<{ cut: number }> | undefined

  /**
   * Opens the store. No worker is started yet.
   * @throws Error when it cannot be opened
   */
  static async open(options: SupervisionOptions): Promise<Supervision> {
    const { store, limits } = options
    if (store.sqlite === undefined) return new Supervision(options, await openNodes(options, store))
    const renewal = [2 * limits.drainTimeout + farewell, limits.drainTimeout] as const
    return new Supervision(options, await SeatedStore.open({ ...options, store, renewal }))
  }

  private constructor(options: SupervisionOptions, store: WorkersStore) {
    const { workers, threads, log, limits } = options
    const pots = makePots(workers + 1, { connections: limits.connections, bodies: limits.bodyMemory })
    this.cache = new MemoryCache(limits.cacheMemory)
    this.commons = commonsOf(pots, 0)
    this.#options = options
    this.opened = store.opened
    this.watched = store.watched
    const { estate } = options
    this.#config = options.config
    this.#sockets = new Sockets(workers)
    const crew = new Crew(workers, {
      threads,
      recruit: (number) => {
        const { seat, place, transfer } = store.give(number)
        const { host, port } = this.#address ?? options.listen
        const sockets = this.#sockets.of(number)
        const order: GatewayOrder = {
          config: this.#config,
          host,
          port,
          sockets,
          workers,
          shared: (!this.#listens && estate?.shared) || [],
          place,
          pots
        }
        return {
          number,
          seat,
          order,
          transfer,
          served: (member) => ({
            ...this.#turnsOf(member).served,
            report: (snapshot: readonly MetricSnapshot[], health: Health, measured: readonly Measured[]) => {
              this.#figures.report(member, snapshot)
              options.relay.tell(measured)
              if (!member.over) this.#health.set(member, health)
            },
            credential: (key: string, refused: Secret | undefined) => options.credentials.lend(key, refused),
            ...servedCache(this.cache),
            ...store.served(member)
          })
        }
      },
      bringHome: async (member) => {
        this.#figures.ended(member)
        leavePots(pots, member.number)
        this.#health.delete(member)
        this.#turns.get(member)?.close()
        this.#turns.delete(member)
        try {
          await store.bringHome(member)
        } catch (error) {
          log.error('what a worker has left could not be brought home: the next start does it', {
            worker: member.number,
            error: thrownText(error)
          })
        }
      },
      hanging: () => store.hanging(),
      onChange: () => this.#spread(),
      log
    })
    this.#crew = crew
    store.attend(crew)
    options.credentials.onGrant = (key, grant) => crew.tell('credential', key, grant)
    this.#figures = new Figures((ms) => crew.ask(ms, 'metrics'))
  }

  /** Makes metrics those of all threads. Called once. */
  observe(metrics: Metrics): void {
    const ofEach = (read: (place: CrewPlace) => number) => () =>
      this.#crew.places.map((place) => [{ worker: String(place.number) }, read(place)] as const)
    const labels = ['worker']
    metrics.observed(
      { name: 'worker_serving', help: '1 while a worker serves at its place, 0 while it is empty.', labels },
      ofEach(({ serves }) => Number(serves))
    )
    metrics.observed(
      { name: 'worker_ends_total', help: 'Workers that have ended at a place, and were replaced.', labels },
      ofEach(({ ends }) => ends)
    )
    metrics.join(() => this.#figures.all())
  }

  /** The health of channels as all threads see it; `own`: as this one does. */
  health(own: Health): Health {
    return joinedHealth([own, ...this.#health.values()])
  }

  /** What the engines of all threads say; `own` is that of this thread, which serves operators alone. */
  views(own: EngineView): EngineViews {
    const ask = async <T>(ms: number, name: keyof EngineView, ...args: readonly unknown[]): Promise<Told<T>> => {
      const { answers, missing } = await this.#crew.ask<T>(ms, name, ...args)
      return { told: new Map(Array.from(answers, ([{ number }, said]) => [number, said])), missing }
    }
    const join = async <T>(said: T, others: Promise<Told<T>>): Promise<Told<T>> => {
      const { told, missing } = await others
      return { told: new Map([[0, said], ...told]), missing }
    }
    return {
      underWay: (tenant) => join(own.underWay(tenant), ask(patience, 'underWay', tenant)),
      figures: () => join(own.figures(), ask(patience, 'figures')),
      // What this thread would do with it counts only when nobody says it who would get it.
      explain: async (asked) => {
        const found = await ask<Explanation>(explaining, 'explain', asked)
        return found.told.size > 0 ? found : join(await own.explain(asked), Promise.resolve(found))
      }
    }
  }

  /** The places of all workers, in order, with what each worker has to do. */
  async places(): Promise<readonly WorkerPlace[]> {
    const { answers } = await this.#crew.ask<WorkerLoad>(patience, 'load')
    const loads = new Map(Array.from(answers, ([{ number }, load]) => [number, load]))
    return this.#crew.places.map((place) => ({ ...place, load: loads.get(place.number) }))
  }

  /** Why fewer serve than should. */
  get reasons(): readonly string[] {
    const { away, size } = this.#crew
    return away.length === 0 ? [] : [`workers: ${size - away.length} of ${size} serve`]
  }

  /** Whether any worker takes connections. */
  get serves(): boolean {
    return this.#crew.serving.length > 0
  }

  /**
   * Starts the workers, each with a server of its own on the port, or on the sockets that are bound already.
   * @throws Error when one cannot, or somebody else has the port
   */
  async listen(bound: readonly BoundSocket[] = []): Promise<Address> {
    const { listen, workers } = this.#options
    const passed = bound.map(({ fd }) => ({ fd, close: () => closeSync(fd) }))
    this.#sockets = new Sockets(workers, passed)
    // Workers share the port with whoever wants to, so that others have it is found out here.
    if (passed.length === 0 && listen.port !== 0) {
      const alone = new NetServer()
      await bind(alone, listen, 'listen')
      alone.close()
      await once(alone, 'close')
    }
    await this.#crew.start((said) => (this.#address = (said as Serving).address), passed.length > 0)
    this.#listens = true
    await this.#keep()
    this.#spread()
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

  /** Those of the sockets, of which there are none before copies were made. */
  get descriptors(): readonly number[] {
    const { descriptors } = this.#sockets
    return this.#crew.places.some(({ number }) => this.#sockets.lacks(number)) ? [] : descriptors
  }

  /** Has all workers accept no more connections, and pass on what still comes on those that are open. */
  leaveTo(path: string): void {
    this.#listens = false
    this.#crew.tell('leaveTo', path)
    this.#sockets.close()
  }

  /** Has one of the workers take connections from the processes before, and another one when that has ended. */
  async takeFrom(path: string, gone: Promise<void>): Promise<void> {
    this.#inner = path
    void gone.then(() => {
      this.#inner = undefined
      this.#crew.tell('predecessorGone')
    })
    await this.#take()
  }

  drain(timeoutMs: number, patient = false): Promise<{ cut: number }> {
    if (this.#drained && timeoutMs === 0) this.#crew.tell('hurry')
    return (this.#drained ??= this.#drain(timeoutMs, patient))
  }

  /** Ends the workers at once. */
  async close(): Promise<void> {
    await this.drain(0)
  }

  #turnsOf(member: Member): TurnsOfWorker {
    const turns = new TurnsOfWorker(this.turns)
    this.#turns.set(member, turns)
    return turns
  }

  /** Keeps copies of the sockets that workers have made. Never rejects. */
  async #keep(): Promise<void> {
    const makers = this.#crew.serving.filter(({ number }) => this.#sockets.lacks(number) && !this.#copied.has(number))
    if (makers.length === 0) return
    for (const { number } of makers) this.#copied.add(number)
    try {
      const copies = await copiesOf(makers.map(({ said }) => (said as Serving).descriptor))
      for (const [at, copy] of copies.entries()) {
        const { over, number } = makers[at]!
        // The descriptor of one that has ended meanwhile may have been of anything.
        if (over || this.#drained) copy.close()
        else this.#sockets.keep(number, copy)
      }
    } catch (error) {
      if (!this.#drained)
        this.#options.log.warn('when a worker ends, connections that wait for it are lost', {
          error: (error as Error).message
        })
    }
    for (const { number } of makers) this.#copied.delete(number)
  }

  /** Tells workers on which sockets they accept for others that do not serve. */
  #spread(): void {
    if (!this.#listens || this.#drained) return
    void this.#keep()
    void this.#take().catch((error: unknown) =>
      this.#options.log.error('connections of the process before are not taken any more', { error: thrownText(error) })
    )
    const { serving } = this.#crew
    const numbers = serving.map(({ number }) => number).sort((one, other) => one - other)
    const substitutes = this.#sockets.substitutes(numbers)
    for (const { line, number } of serving) line.tell('standIn', substitutes.get(number))
  }

  async #take(): Promise<void> {
    const { serving } = this.#crew
    const [first] = serving
    if (this.#inner === undefined || !first || serving.some((member) => member === this.#taker)) return
    this.#taker = first
    await first.line.ask('takeFrom', this.#inner)
  }

  async #drain(timeoutMs: number, patient: boolean): Promise<{ cut: number }> {
    this.#sockets.close()
    const left = await this.#crew.close<{ cut: number }>((patient ? 2 : 1) * timeoutMs + farewell, timeoutMs, patient)
    return { cut: left.reduce((sum, { cut }) => sum + cut, 0) }
  }
}

async function openNodes(
  { workers, finished, log }: SupervisionOptions,
  store: StoreSettings & SharedPlace
): Promise<WorkersStore> {
  const { NodesStore } = await import('./nodes-store.ts')
  return NodesStore.open(store, workers, finished, log)
}
