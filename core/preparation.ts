// Prepares a generation: everything that a configuration describes, checked and set up beside what runs.
import { withEachCredential } from './catalogue/account.ts'
import type { Catalogue } from './catalogue/catalogue.ts'
import type { ChainEntry, Config } from './catalogue/settings.ts'
import type { Credentials } from './credentials/credentials.ts'
import type { Plugin, PluginContext } from './contract/contract.ts'
import { compileChain } from './exchange/state/chain.ts'
import type { Chain } from './exchange/state/chain.ts'
import type { Services } from './store/services.ts'
import { closedLog } from './telling/log.ts'
import type { Logger } from './telling/log.ts'
import type { Metrics } from './telling/metrics.ts'
import type { LogTap } from './telling/tap.ts'
import type { MeasureRelay } from './telemetry/measures.ts'
import { telemetryPlugin } from './telemetry/telemetry.ts'
import type { TelemetryParts } from './telemetry/telemetry.ts'
import { Tenancy } from './tenancy/tenancy.ts'
import type { Transport } from './transport/transport.ts'
import { ChannelSwitches } from './program/channel-switches.ts'
import { ConfigError } from './program/configuration.ts'
import type { GenerationParts, Shared } from './program/generation.ts'
import { contextOf } from './program/plugin-context.ts'
import { tellWays } from './program/ways.ts'

/** What a generation is prepared with. */
export interface Surroundings {
  services: Services
  metrics: Metrics
  log: Logger
  shared: Shared
  transport: Transport
  credentials: Credentials
  /** Hears the program's log. */
  tap: LogTap
  /** What workers measure for collectors goes this way. */
  relay: MeasureRelay
  /** Whether this thread is one of several that serve clients, and another one speaks for all. */
  isWorker?: boolean
}

/**
 * The catalogue of a configuration, which follows what operators change in the store until `close` is called. Names
 * that are both in the file and in the store are not checked here: see {@link Tenancy.clashes}.
 */
export function openCatalogue(
  config: Config,
  { documents, secrets }: Pick<Services, 'documents' | 'secrets'>
): { tenancy: Tenancy; catalogue: Catalogue; close(): void } {
  const { channels, models } = config
  const tenancy = new Tenancy(config, documents, secrets)
  const switches = new ChannelSwitches(channels, documents)
  const catalogue: Catalogue = {
    channels,
    models,
    get tenants() {
      return tenancy.tenants
    },
    get switched() {
      return switches.switched
    },
    findPresented: (secret) => tenancy.findPresented(secret),
    findKey: (sha256) => tenancy.findKey(sha256),
    whyNoKey: (sha256) => tenancy.whyNoKey(sha256),
    scopesNow: (opened) => tenancy.scopesNow(opened),
    scope: (id) => tenancy.scope(id)
  }
  const close = (): void => {
    tenancy.close()
    switches.close()
  }
  return { tenancy, catalogue, close }
}

/** Checks and sets up everything that a file describes, and returns it ready for use. */
export async function prepare(
  config: Config,
  plugins: ReadonlyMap<string, Plugin>,
  { services, metrics, log, shared, transport, credentials, tap, relay, isWorker }: Surroundings
): Promise<GenerationParts> {
  const { tenancy, catalogue, close } = openCatalogue(config, services)
  const user = shared.user()
  let leave = (): void => {}
  const drop = async (): Promise<void> => {
    await user.drop()
    leave()
    close()
  }
  let chain: Chain | undefined
  // What plugins say while they are set up, the thread says that speaks for all.
  const said = closedLog(log)
  if (!isWorker) said.open()
  const context = (plugin: Plugin): PluginContext =>
    contextOf(plugin, { services, metrics, log: said.log, catalogue, shared: user })
  try {
    refuseClashes(tenancy)
    if (!isWorker) tellWays(config, log)
    const channels = withEachCredential(config.channels.values())
    const forget = credentials.use(channels)
    leave = forget
    const disconnect = await transport.use(channels)
    leave = () => {
      disconnect()
      forget()
    }
    const { entries, known } = withTelemetry(config, plugins, { metrics, tap, relay, isWorker })
    chain = await compileChain(entries, known, context)
    // While the plugins were set up, something may have been made that has a name of the file.
    refuseClashes(tenancy)
    said.open()
    return { config, catalogue, chain, drop }
  } catch (error) {
    await chain?.dispose()
    await drop()
    throw error
  }
}

/** The chain, followed by the plugin that tells a collector where the file has `telemetry`. */
function withTelemetry(
  { telemetry, ...config }: Config,
  plugins: ReadonlyMap<string, Plugin>,
  parts: Omit<TelemetryParts, 'config'>
): { entries: readonly ChainEntry[]; known: ReadonlyMap<string, Plugin> } {
  if (!telemetry) return { entries: config.chain, known: plugins }
  const plugin = telemetryPlugin({ config: { ...config, telemetry }, ...parts })
  return {
    entries: [...config.chain, { plugin: plugin.name, options: {}, place: config.file }],
    known: new Map([...plugins, [plugin.name, plugin]])
  }
}

/** @throws ConfigError when something is both in the file and in the store */
function refuseClashes(tenancy: Tenancy): void {
  const clashes = tenancy.clashes()
  if (clashes.length > 0) throw new ConfigError(clashes)
}
