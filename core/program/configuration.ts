// Reads gateway.yaml for the program: checks it with its included files, and the order of its chain, and starts the
// simulator when a channel needs it.
import { Files } from '../../config/files.ts'
import { readFiles } from '../../config/includes.ts'
import { loadReading } from '../../config/load.ts'
import { declaredPlugins } from '../../config/plugins.ts'
import { loadPlugins } from './plugin-loader.ts'
import { checkOrder } from '../exchange/state/chain.ts'
import type { Plugin } from '../contract/contract.ts'
import type { Config, Problem } from '../catalogue/settings.ts'
import type { Simulator } from '../simulator/simulator.ts'

/** The file to read, and what is needed to read it. */
export interface ConfigSource {
  /** Path of gateway.yaml. */
  file: string
  env: NodeJS.ProcessEnv
  /** The plugins that `chain:` may name without declaring them. */
  plugins: ReadonlyMap<string, Plugin>
}

/** The file cannot be used. `problems` says why, with a place for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
    this.problems = problems
  }
}

/** Used instead of the simulator's address while none runs. Nothing connects to it. */
const noSimulator = new URL('http://127.0.0.1:1/v1')

/** The configuration, and the plugins that its chain may name. */
export interface ReadConfig {
  config: Config
  plugins: ReadonlyMap<string, Plugin>
}

/**
 * Reads the file as `sluice check` does, without starting anything except the modules of its plugins.
 * @throws ConfigError with every problem
 */
export async function readConfig(
  { file, env, plugins: shipped }: ConfigSource,
  simulatorUrl = noSimulator,
  files = new Files()
): Promise<ReadConfig> {
  const reading = readFiles(file, env, files)
  const { plugins, unusable } = await loadPlugins(declaredPlugins(reading.source), shipped)
  const { config, problems } = loadReading(reading, { env, simulatorUrl, plugins, unusable })
  if (!config) throw new ConfigError(problems)
  const disorder = checkOrder(config.chain, plugins)
  if (disorder.length > 0) throw new ConfigError(disorder)
  return { config, plugins }
}

/**
 * Reads the file at start and at every reload. The simulator is started for the first channel that needs it, and kept.
 */
export class ConfigReader {
  readonly #source: ConfigSource
  #simulator: Simulator | undefined
  #files = new Files()
  #plugins: ReadonlyMap<string, Plugin>

  constructor(source: ConfigSource) {
    this.#source = source
    this.#plugins = source.plugins
  }

  /** The plugins that the chain of the latest configuration may name. */
  get plugins(): ReadonlyMap<string, Plugin> {
    return this.#plugins
  }

  /** The hashes of the files that the latest reading used, by path, even when it failed. */
  get files(): ReadonlyMap<string, string> {
    return this.#files.hashes
  }

  /** @throws ConfigError with every problem */
  async read(): Promise<Config> {
    const config = await this.#read()
    if (config.simulated.length === 0 || this.#simulator) return config
    // The simulator is half of all code of the program, so it is loaded only when a channel needs it.
    const { startSimulator } = await import('../simulator/simulator.ts')
    this.#simulator = await startSimulator()
    return this.#read()
  }

  /**
   * Reads the file for a comparison: what {@link files} and {@link plugins} say stays.
   * @throws ConfigError with every problem
   */
  async look(): Promise<Config> {
    return (await readConfig(this.#source, this.#simulatorUrl)).config
  }

  async close(): Promise<void> {
    await this.#simulator?.close()
  }

  get #simulatorUrl(): URL | undefined {
    return this.#simulator && new URL('/v1', this.#simulator.url)
  }

  async #read(): Promise<Config> {
    this.#files = new Files()
    const { config, plugins } = await readConfig(this.#source, this.#simulatorUrl, this.#files)
    this.#plugins = plugins
    return config
  }
}
