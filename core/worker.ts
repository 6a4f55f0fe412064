// A worker of a gateway: a thread with an engine and a server of its own, over the store that all workers share.
import './program/heap.ts'
import './program/inlining.ts'
import './program/globals.ts'
import { plugins as shipped } from '../plugins/index.ts'
import type { Config, StoreSettings } from './catalogue/settings.ts'
import { commonsOf } from './allowance.ts'
import type { WorkerLoad } from './admin/api/worker-place.ts'
import { viewOf } from './admin/requests/engine-view.ts'
import { copiesOf } from './clients/copies.ts'
import { Credentials } from './credentials/credentials.ts'
import type { Grant } from './credentials/grant.ts'
import type { AskedRequest } from './exchange/rehearsal/rehearse.ts'
import { operations } from './operations/index.ts'
import { prepare } from './preparation.ts'
import type { Surroundings } from './preparation.ts'
import { readSent } from './program/configuration.ts'
import type { SentConfig } from './program/configuration.ts'
import { Generations, Shared } from './program/generation.ts'
import type { GenerationParts } from './program/generation.ts'
import { observeThread } from './program/metrics.ts'
import { cacheThere } from './store/distant/cache.ts'
import type { Caller, Line } from './store/distant/line.ts'
import { joinStore } from './store/shared/desk/join.ts'
import { MeasureRelay } from './telemetry/measures.ts'
import type { Logger } from './telling/log.ts'
import { LogTap } from './telling/tap.ts'
import { tokens, wire } from './wiring.ts'
import type { Joined } from './workers/joined.ts'
import { StandIn } from './workers/stand-in.ts'
import type { GatewayOrder, Serving } from './workers/order.ts'
import { Prepared } from './workers/prepared.ts'
import { Supervisor } from './workers/supervisor.ts'
import { turnsThere } from './workers/turns.ts'
import { WorkerCustody } from './workers/worker-custody.ts'

/** How often the supervisor is told what was counted, in milliseconds; less often where that takes long. */
const telling = 1000

/** What this thread is to listen and work with. What cannot be used together is divided. */
function shareOf(config: Config, { host, port, workers }: GatewayOrder): Config {
  const { settings, telemetry } = config
  return {
    ...config,
    telemetry: telemetry && { ...telemetry, queue: Math.ceil(telemetry.queue / workers) },
    settings: { ...settings, listen: { ...settings.listen, host, port } }
  }
}

/** Joins the store, of whichever kind it is. */
async function join(place: GatewayOrder['place'], settings: StoreSettings, log: Logger, line: Line): Promise<Joined> {
  if (place.kind === 'seat') return new WorkerCustody(await joinStore(place))
  if (settings.sqlite !== undefined) throw new Error('the store of a node is in PostgreSQL')
  // Gateways of one machine start without what only shared stores need.
  const { WorkerMembership } = await import('./workers/worker-membership.ts')
  return WorkerMembership.join(place, settings, log, line)
}

async function work(supervisor: Supervisor<GatewayOrder>): Promise<void> {
  const { order } = supervisor
  const tap = new LogTap()
  const log = tap.on(supervisor.log)
  const read = async (sent: SentConfig): ReturnType<typeof readSent> => {
    const { config, ...rest } = await readSent(sent, process.env, shipped)
    return { ...rest, config: shareOf(config, order) }
  }
  const first = await read(order.config)
  const joined = await join(order.place, first.config.settings.store, log, supervisor.line)
  const commons = commonsOf(order.pots, supervisor.number)
  const { give, get } = wire(
    log,
    first.config.settings,
    { ...joined, cache: cacheThere(supervisor.line) },
    operations,
    joined.finished,
    commons,
    turnsThere(supervisor.line)
  )
  const [transport, metrics] = [get(tokens.transport), get(tokens.metrics)]
  const shared = new Shared(log, order.shared, commons.named)
  const credentials = new Credentials(log, (key, refused) => supervisor.line.ask('credential', key, refused))
  const relay = new MeasureRelay()
  const parts: Surroundings = {
    services: get(tokens.services),
    metrics,
    log,
    shared,
    transport,
    credentials,
    tap,
    relay,
    isWorker: true
  }
  const generations = new Generations(await prepare(first.config, first.plugins, parts))
  give(tokens.generations, generations)
  const [engine, background, server] = [get(tokens.engine), get(tokens.background), get(tokens.server)]
  joined.begin(background, (id) => generations.current.catalogue.scope(id))
  const { store } = joined
  const view = viewOf(engine)
  observeThread({ metrics, server, engine, background, transport, store, generations })
  const sockets = order.sockets.length > 0 ? await copiesOf(order.sockets) : []
  const address = await server.listen(sockets)
  const standIn = new StandIn(server, log)

  const predecessor = Promise.withResolvers<void>()
  /** The next process, which the supervisor passes on to. */
  const there: Caller = {
    ask: (name, ...args) => supervisor.line.ask('askThere', name, args),
    tell: (name, ...args) => supervisor.line.tell('tellThere', name, args)
  }
  const next = new Prepared<GenerationParts>(async ({ chain, drop }) => {
    await chain.dispose()
    await drop()
  })
  const tell = (): void =>
    supervisor.line.tell('report', metrics.own, generations.current.chain.reportHealth(), relay.take())
  const leave = async (patience: number, patient = false): Promise<{ cut: number }> => {
    if (patience === 0) engine.refuse()
    engine.retire()
    void joined.retire(background, engine.ids)
    const late = setTimeout(() => engine.stop(), patience)
    const drained = await server.drain(patience, patient)
    if (patience === 0) engine.stop()
    await engine.idle()
    clearTimeout(late)
    clearTimeout(reporting)
    background.close()
    await next.drop()
    await generations.close()
    await transport.close()
    await store.close()
    tell()
    return drained
  }
  let loop = performance.eventLoopUtilization()
  let busy = 0
  let reporting: NodeJS.Timeout
  const report = (): void => {
    const began = performance.now()
    tell()
    const now = performance.eventLoopUtilization()
    busy = performance.eventLoopUtilization(now, loop).utilization
    loop = now
    reporting = setTimeout(report, Math.max(telling, 100 * (performance.now() - began)))
  }
  report()
  supervisor.serve(
    {
      prepare: (sent: SentConfig) =>
        next.prepare(async () => {
          const { config, plugins } = await read(sent)
          return prepare(config, plugins, parts)
        }),
      swap() {
        const prepared = next.take()
        const { listen, state } = prepared.config.settings
        if (listen.tls) server.certify(listen.tls)
        generations.replace(prepared)
        get(tokens.vault).use(state)
      },
      drop: () => next.drop(),
      leave,
      ...joined.duties({ there, background, engine, shared }),
      leaveTo: (path: string) => server.leaveTo(path),
      takeFrom: (path: string) => server.takeFrom(path, predecessor.promise),
      predecessorGone: () => predecessor.resolve(),
      standIn: (descriptors: readonly number[]) => standIn.take(descriptors),
      hurry() {
        engine.refuse()
        void server.drain(0)
        engine.stop()
      },
      ...view,
      // Buffers are sent as arrays of bytes.
      explain: ({ body, key, ...asked }: AskedRequest) =>
        view.explain({ ...asked, body: Buffer.from(body), key: key && Buffer.from(key) }),
      load(): WorkerLoad {
        const { http1, http2, undecided } = server.figures.connections
        const { running: exchanges } = engine
        return { connections: http1 + http2 + undecided, exchanges, upstreamConnections: transport.connections, busy }
      },
      credential: (key: string, grant: Grant) => credentials.take(key, grant),
      metrics: () => metrics.own
    },
    { address, descriptor: server.descriptors[0]! } satisfies Serving
  )
}

const supervisor = await Supervisor.find<GatewayOrder>()
// Nobody else keeps this thread running before it listens.
const starting = setInterval(() => {}, 1000)
await work(supervisor).catch((error: unknown) => supervisor.fail(error))
clearInterval(starting)
