// Assembles the program: in which order its services start and stop.
import './program/heap.ts'
import './program/inlining.ts'
import './program/globals.ts'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { plugins as shippedPlugins } from '../plugins/index.ts'
import { noteReload } from './admin/configuration/config.ts'
import { viewOf, viewsOf } from './admin/requests/engine-view.ts'
import { AdminServer } from './admin/server.ts'
import { BodyMemory } from './bodies/body-memory.ts'
import type { GatewayOptions } from './gateway-options.ts'
import { startAlerts } from './program/alerts.ts'
import { Backups } from './program/backups.ts'
import { ConfigFile } from './program/config-file.ts'
import { ConfigHistory, historyFolderOf } from './program/config-history.ts'
import { ConfigReader } from './program/configuration.ts'
import type { Plugin } from './contract/contract.ts'
import { Credentials } from './credentials/credentials.ts'
import { Generations, Shared } from './program/generation.ts'
import type { GenerationParts } from './program/generation.ts'
import { createLogger, silentLog } from './telling/log.ts'
import type { Logger } from './telling/log.ts'
import { MeasureRelay } from './telemetry/measures.ts'
import { LogTap } from './telling/tap.ts'
import type { ServedOperation } from './contract/served.ts'
import { operations as shippedOperations } from './operations/index.ts'
import { Operations } from './operations/operations.ts'
import { prepare } from './preparation.ts'
import type { Surroundings } from './preparation.ts'
import { observeGateway, observeThread } from './program/metrics.ts'
import { probeMemory, Prober } from './program/probe.ts'
import type { ProberParts } from './program/probe.ts'
import { Reloader } from './program/reload.ts'
import { resting } from './program/resting.ts'
import { Verification } from './program/verification.ts'
import { Stops } from './program/stops.ts'
import { RunningGateway } from './program/running-gateway.ts'
import type { Gateway, Phase } from './program/running-gateway.ts'
import type { Config } from './catalogue/settings.ts'
import { folderOf } from './catalogue/store-place.ts'
import { RequestTap } from './store/request-tap.ts'
import { openStore } from './store/embedded/store.ts'
import type { OwnStore } from './store/embedded/store.ts'
import { warmThreads } from './store/embedded/threads/thread.ts'
import { Custody } from './handover/custody.ts'
import { Handover } from './handover/handover.ts'
import { placeOf } from './handover/messages.ts'
import type { Estate } from './handover/messages.ts'
import { openPlace } from './handover/opening.ts'
import { Watchdog } from './watchdog/watchdog.ts'
import { tokens, wire } from './wiring.ts'
import type { Wiring } from './wiring.ts'
import type { Reserve } from './workers/reserve.ts'
import type { Supervision, SupervisionOptions } from './workers/supervision.ts'

export type { Gateway, GatewayOptions }

/**
 * Starts a gateway: configuration, store with its recovery, chain, and the listeners last.
 * @throws ConfigError when the file cannot be used; Error when the store cannot be opened or an address cannot be bound
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const {
    config: file,
    env = process.env,
    plugins = shippedPlugins,
    operations = shippedOperations,
    log: written = createLogger()
  } = options
  const tap = new LogTap()
  const log = tap.on(written)
  const stops = new Stops(log)
  try {
    return await start(new ConfigReader({ file, env, plugins }), operations, options, stops, log, tap)
  } catch (error) {
    options.predecessor?.fail(error)
    await stops.run()
    throw error
  }
}

async function start(
  reader: ConfigReader,
  operations: readonly ServedOperation[],
  { env = process.env, sockets = {}, predecessor, command, workers: asked, console: built }: GatewayOptions,
  stops: Stops,
  log: Logger,
  tap: LogTap
): Promise<Gateway> {
  stops.add(() => reader.close())
  const first = await reader.read()
  const workers = asked ?? first.settings.workers
  const place = placeOf(first.settings)
  const threads = workers > 1 ? await threadsOf(env) : undefined
  if (threads) stops.add(() => threads.close())
  let estate: Estate | undefined
  if (predecessor) {
    await Promise.all([warmThreads(), threads?.fill(workers)])
    estate = await predecessor.estate(place, folderOf(first.settings.store))
  }
  const [finished, relay, credentials] = [new RequestTap(), new MeasureRelay(), new Credentials(log)]
  const supervision =
    threads && (await supervise(reader, first, { threads, workers, estate, finished, relay, credentials }, log))
  const opened = supervision?.opened ?? (await openPlace(first.settings.store, estate, log))
  const { store } = opened
  stops.add(() => opened.close())
  if (predecessor) stops.add(() => predecessor.gone)
  const { give, get } = wire(
    log,
    first.settings,
    supervision ? { ...supervision.opened, cache: supervision.cache } : opened,
    operations,
    finished,
    supervision?.commons
  )
  const transport = get(tokens.transport)
  stops.add(() => transport.close())
  const metrics = get(tokens.metrics)
  const shared = new Shared(log, estate?.shared, supervision?.commons.named)
  const parts = { services: get(tokens.services), metrics, log, shared, transport, credentials, tap, relay }
  const generations = new Generations(await prepare(first, reader.plugins, parts))
  give(tokens.generations, generations)
  stops.add(() => generations.close())

  const backups = new Backups({ file: first.settings.store.sqlite, log, metrics })
  stops.add(() => backups.close())
  const [engine, background] = [get(tokens.engine), get(tokens.background)]
  if (supervision) supervision.turns = background.turns
  const alone = supervision ? undefined : get(tokens.server)
  const server = supervision ?? alone!
  const history = new ConfigHistory(historyFolderOf(first.settings.store), log)
  history.begin(first)
  opened.tellConfig(first.hash)
  const reloader = new Reloader({
    current: () => generations.current.config,
    read: () => reader.read(),
    look: () => reader.look(),
    async apply(next) {
      const { listen } = next.settings
      const { sent } = reader
      const prepared = await prepare(next, reader.plugins, parts)
      const swap = (): void => {
        if (listen.tls) alone?.certify(listen.tls)
        generations.replace(prepared)
        get(tokens.vault).use(next.settings.state)
        backups.use(next.settings.store.backups)
      }
      if (supervision) await supervision.change(sent, swap).catch((error: unknown) => forget(prepared, error))
      else swap()
      opened.tellConfig(next.hash)
    },
    tell: (result, before) => noteReload(result, before, generations.current.config, { history, store, log }),
    log,
    metrics
  })
  const watch = startAlerts({
    ...parts,
    store: { documents: store.documents, ledger: supervision?.watched ?? store.ledger },
    settings: () => generations.current.config.alerts,
    scope: (id) => generations.current.catalogue.scope(id)
  })
  stops.add(watch)
  opened.begin(background)
  stops.add(async () => background.close())
  // Where one of several workers cannot start, the others serve already.
  stops.add(() => server.close())
  const { host, port, protocol } = await server.listen(sockets.clients?.map((fd) => ({ fd })))
  backups.use(first.settings.store.backups)
  const generation = predecessor?.generation ?? 1
  observeGateway({ generation, metrics, store, generations, credentials })
  observeThread({ metrics, server, engine, background, transport, store, generations })
  supervision?.observe(metrics)
  const phase: Phase = { stopping: false, upgrade: async () => ({ ok: false, reason: 'the gateway is being started' }) }
  const prober = proberOf(
    get,
    parts,
    operations,
    () => generations.enter(),
    () => reader.plugins
  )
  stops.add(() => prober.close())
  const verification = new Verification({
    place: first.settings.store,
    documents: store.documents,
    flush: () => store.flush()
  })
  stops.add(() => verification.close())
  const settings = first.settings.admin
  if (!settings && sockets.admin !== undefined)
    throw new Error('a socket for the admin listener was passed, and the file turns that off: pass none')
  const url = `${protocol}://${host.includes(':') ? `[${host}]` : host}:${port}`
  const watched = { metrics, generations, reloader, history, prober, verification, backups, finished }
  const view = viewOf(engine)
  const shown = { clients: url, store, log, operations, ...watched }
  const admin =
    settings &&
    (await AdminServer.start(
      {
        settings,
        console: built,
        ...shown,
        configFile: new ConfigFile({ reader, reloader, current: () => generations.current.config }),
        engine: supervision?.views(view) ?? viewsOf(view),
        ...(supervision && { workers: supervision }),
        vault: parts.services.vault,
        credentials,
        serve: (incoming) => engine.handle(incoming),
        stopping: () => phase.stopping,
        upgrade: (reason) => phase.upgrade(reason)
      },
      sockets.admin
    ))
  if (admin) stops.add(() => admin.close())
  // The first to stop: a reload needs all that the others close.
  stops.add(async () => {
    reader.giveUp()
    await reloader.close()
  })
  const retire = async (): Promise<void> => {
    backups.use(undefined)
    await watch()
  }
  const going = { services: parts.services, background, log }
  const handover = new Handover({
    command,
    generation,
    place,
    phase,
    opened,
    ...going,
    engine,
    shared,
    server,
    admin,
    retire
  })
  phase.upgrade = (reason) => handover.run(reason)
  if (predecessor) await opened.succeed(predecessor, going, server)
  const giveUp = (): Promise<void> => opened.retire(background, engine.ids)
  const running = { reader, generations, reloader, engine, server, stops, phase, handover, generation, giveUp }
  return new RunningGateway(url, admin?.url, running)
}

/** The threads of workers, of which none is started yet. */
async function threadsOf(env: NodeJS.ProcessEnv): Promise<Reserve> {
  // A gateway of one thread starts without what only workers need.
  const { Reserve } = await import('./workers/reserve.ts')
  // Sources and compiled files lie in the same places and differ only in their endings.
  return new Reserve(new URL(`./worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url), env)
}

/** Opens the store for workers, which start when the supervisor listens. */
async function supervise(
  reader: ConfigReader,
  { settings: { store, listen, limits } }: Config,
  parts: Pick<SupervisionOptions, 'threads' | 'workers' | 'estate' | 'finished' | 'relay' | 'credentials'>,
  log: Logger
): Promise<Supervision> {
  const { Supervision } = await import('./workers/supervision.ts')
  return Supervision.open({ ...parts, store, listen, limits, config: reader.sent, log })
}

/** @throws the error, when what was prepared and is not to be used is disposed */
async function forget({ chain, drop }: GenerationParts, error: unknown): Promise<never> {
  await chain.dispose()
  await drop()
  throw error
}

function proberOf(
  get: Wiring['get'],
  { services, metrics, log, shared, transport }: Surroundings,
  operations: readonly ServedOperation[],
  enter: ProberParts['enter'],
  plugins: () => ReadonlyMap<string, Plugin>
): Prober {
  return new Prober({
    operations: new Operations(operations),
    services,
    background: get(tokens.background),
    transport,
    watchdog: new Watchdog(),
    memory: new BodyMemory(probeMemory),
    log,
    metrics,
    shared,
    enter,
    plugins
  })
}

/**
 * Calls `work` with what tries the channels of a file, while no gateway runs or beside one. Its store is in a folder of
 * its own, which is removed afterwards, and of the chain only what a probe passes is set up.
 * @throws ConfigError when the file cannot be used
 */
export async function withProber<T>(
  {
    config: file,
    env = process.env,
    plugins = shippedPlugins,
    operations = shippedOperations,
    log = silentLog
  }: GatewayOptions,
  work: (prober: Prober, config: Config) => Promise<T>
): Promise<T> {
  const stops = new Stops(log)
  try {
    const reader = new ConfigReader({ file, env, plugins })
    stops.add(() => reader.close())
    const config = await reader.read()
    const folder = await mkdtemp(join(tmpdir(), 'sluice-check-'))
    stops.add(() => rm(folder, { recursive: true, force: true }))
    const open = (): Promise<OwnStore> => openStore({ file: join(folder, 'store.db'), durability: 'process', log })
    const custody = new Custody(await open(), open)
    stops.add(() => custody.close())
    const { give, get } = wire(log, config.settings, custody, operations)
    const transport = get(tokens.transport)
    stops.add(() => transport.close())
    const parts = {
      services: get(tokens.services),
      metrics: get(tokens.metrics),
      log,
      shared: new Shared(log),
      transport,
      credentials: new Credentials(log),
      tap: new LogTap(),
      relay: new MeasureRelay()
    }
    const chain = [{ plugin: resting.name, options: {}, place: config.file }]
    const generations = new Generations(
      await prepare({ ...config, chain, telemetry: undefined }, new Map([[resting.name, resting]]), parts)
    )
    give(tokens.generations, generations)
    stops.add(() => generations.close())
    const present = { config, catalogue: generations.current.catalogue, leave: () => {} }
    return await work(
      proberOf(
        get,
        parts,
        operations,
        () => present,
        () => reader.plugins
      ),
      config
    )
  } finally {
    await stops.run()
  }
}
