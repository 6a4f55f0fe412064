// Which service is made of which: the wiring of one engine with its server, over whatever store it is given.
import './program/reflect.ts'
import { container as root, instanceCachingFactory } from 'tsyringe'
import type { DependencyContainer } from 'tsyringe'
import type { Commons } from './allowance.ts'
import { BodyMemory } from './bodies/body-memory.ts'
import { BackgroundWork } from './exchange/background/background.ts'
import type { Turns } from './exchange/background/pool.ts'
import { Engine } from './exchange/engine.ts'
import type { Generations } from './program/generation.ts'
import type { Logger } from './telling/log.ts'
import { Metrics } from './telling/metrics.ts'
import type { ServedOperation } from './contract/served.ts'
import { Operations } from './operations/operations.ts'
import { Server } from './clients/server.ts'
import type { Settings } from './catalogue/settings.ts'
import { MemoryCache } from './store/memory/cache.ts'
import { RequestTap } from './store/request-tap.ts'
import type { Services } from './store/services.ts'
import type { Store } from './store/store.ts'
import { SealedVault } from './store/sealed/vault.ts'
import type { Transport } from './transport/transport.ts'
import { Transports } from './transport/transports.ts'
import { Watchdog } from './watchdog/watchdog.ts'

/** A symbol with the type of the service that it identifies. */
type Token<T> = symbol & { readonly type?: T }

function token<T>(name: string): Token<T> {
  return Symbol(name)
}

/** The services. `generations` is given when the first one is prepared, and before what needs it is asked for. */
export const tokens = {
  log: token<Logger>('log'),
  settings: token<Settings>('settings'),
  store: token<Kept['store']>('store'),
  vault: token<SealedVault>('vault'),
  services: token<Services>('services'),
  metrics: token<Metrics>('metrics'),
  generations: token<Generations>('generations'),
  transport: token<Transport>('transport'),
  background: token<BackgroundWork>('background'),
  engine: token<Engine>('engine'),
  server: token<Server>('server')
}

/** The store that an engine is wired over, and what is beside it. */
export interface Kept extends Pick<Services, 'limits' | 'secrets' | 'claims'> {
  /** Absent: a cache of its own. */
  readonly cache?: Services['cache'] | undefined
  readonly store: Pick<Store, 'documents' | 'ledger' | 'requests' | 'answers' | 'routes' | 'works'>
}

/** The services of one engine, which are made as they are asked for. */
export interface Wiring {
  give<T>(key: Token<T>, value: T): void
  get<T>(key: Token<T>): T
}

/**
 * Registers how each service is made. A service is made when it is first asked for, and only once. `finished` hears of
 * the requests that end. `commons`: of a gateway with several threads; `turns`: of one of its workers.
 */
export function wire(
  log: Logger,
  settings: Settings,
  { store, limits, secrets, claims, cache }: Kept,
  operations: readonly ServedOperation[],
  finished = new RequestTap(),
  commons?: Commons,
  turns?: Turns
): Wiring {
  const container: DependencyContainer = root.createChildContainer()
  const get = <T>(key: Token<T>): T => container.resolve<T>(key)
  const give = <T>(key: Token<T>, value: T): void => void container.register<T>(key, { useValue: value })
  const make = <T>(key: Token<T>, factory: () => T): void =>
    void container.register<T>(key, { useFactory: instanceCachingFactory(factory) })
  give(tokens.log, log)
  give(tokens.settings, settings)
  give(tokens.store, store)
  make(tokens.metrics, () => new Metrics())
  make(tokens.transport, () => new Transports())
  make(tokens.vault, () => new SealedVault(get(tokens.store).works, get(tokens.settings).state))
  make(tokens.services, () => {
    const { documents, ledger, requests, works, answers, routes } = get(tokens.store)
    return {
      documents,
      ledger,
      requests: finished.on(requests),
      works,
      vault: get(tokens.vault),
      answers,
      routes,
      limits,
      secrets,
      claims,
      cache: cache ?? new MemoryCache(get(tokens.settings).limits.cacheMemory)
    }
  })
  make(tokens.background, () => {
    const kinds = new Map(operations.flatMap(({ begins }) => (begins ? [[begins.name, begins]] : [])))
    return new BackgroundWork({
      services: get(tokens.services),
      generations: get(tokens.generations),
      transport: get(tokens.transport),
      kinds,
      log,
      turns
    })
  })
  make(tokens.engine, () => {
    const memory = new BodyMemory(commons?.bodies ?? get(tokens.settings).limits.bodyMemory)
    const background = get(tokens.background)
    return new Engine({
      operations: new Operations(operations),
      services: get(tokens.services),
      background,
      generations: get(tokens.generations),
      transport: get(tokens.transport),
      watchdog: new Watchdog(),
      memory,
      drains: commons?.drains,
      log
    })
  })
  make(tokens.server, () => {
    const { listen, limits } = get(tokens.settings)
    const engine = get(tokens.engine)
    return new Server({
      listen,
      limits,
      log,
      together: commons?.connections,
      handle: (incoming) => engine.handle(incoming),
      onDrainTimeout: () => engine.stop()
    })
  })
  return { give, get }
}
