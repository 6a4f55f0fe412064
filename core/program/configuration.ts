// Reads gateway.yaml for the program: checks it with its included files, and the order of its chain, and starts the
// simulator when a channel needs it.
import { Files, GivenFiles } from '../../config/files/files.ts'
import type { Found } from '../../config/files/files.ts'
import { readFiles } from '../../config/files/includes.ts'
import { loadReading } from '../../config/load.ts'
import type { Reading } from '../../config/files/includes.ts'
import { declaredPlugins } from '../../config/sections/plugins.ts'
import type { PluginSource } from '../../config/sections/plugins.ts'
import { loadPlugins } from './plugin-loader.ts'
import { checkOrder } from '../exchange/state/chain.ts'
import type { Plugin } from '../contract/contract.ts'
import type { Config, Problem } from '../catalogue/settings.ts'
import type { Simulator } from '../simulator/simulator.ts'
import { plugins as shippedPlugins } from '../../plugins/index.ts'
import { readApart } from './reading.ts'
import type { ReadApart } from './reading.ts'

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

/**
 * Bytes of all files of a configuration above which a thread reads them again: these take this one some fifty
 * milliseconds, and a MiB takes it a second.
 */
const mostHere = 64 * 1024

/** Used instead of the simulator's address while none runs. Nothing connects to it. */
const noSimulator = new URL('http://127.0.0.1:1/v1')

/** The configuration, the plugins that its chain may name, and the files as they were read. */
export interface ReadConfig {
  config: Config
  plugins: ReadonlyMap<string, Plugin>
  reading: Reading
}

/**
 * What a text that comes over the network may do: run modules that it names, and read files as parts of the
 * configuration. Each says why it may not, as a
 * sentence without its subject; undefined when it may.
 */
export interface Trust {
  plugin(plugin: PluginSource): string | undefined
  text(file: string): string | undefined
}

/**
 * Reads the file as `sluice check` does, without starting anything except the modules of its plugins.
 * @throws ConfigError with every problem
 */
export async function readConfig(
  source: ConfigSource,
  simulatorUrl?: URL,
  files = new Files(),
  trust?: Trust
): Promise<ReadConfig> {
  return makeConfig(source, readFiles(source.file, source.env, files), simulatorUrl, trust)
}

/**
 * Makes a configuration of files that were read, as {@link readConfig} does.
 * @throws ConfigError with every problem
 */
export async function makeConfig(
  { env, plugins: shipped }: ConfigSource,
  reading: Reading,
  simulatorUrl = noSimulator,
  trust?: Trust
): Promise<ReadConfig> {
  const strange = reading.texts.flatMap((one) => {
    const why = trust?.text(one.file)
    return why === undefined ? [] : [{ place: one.file, message: why }]
  })
  if (strange.length > 0) throw new ConfigError(strange)
  const declared = declaredPlugins(reading.source)
  const refused = new Map(
    declared.flatMap((one) => {
      const why = trust?.plugin(one)
      return why === undefined ? [] : [[one.name, why] as const]
    })
  )
  const loaded = await loadPlugins(
    declared.filter(({ name }) => !refused.has(name)),
    shipped
  )
  const { plugins } = loaded
  const unusable = new Map([...loaded.unusable, ...refused])
  const { config, problems } = loadReading(reading, { env, simulatorUrl, plugins, unusable })
  if (!config) throw new ConfigError(problems)
  const disorder = checkOrder(config.chain, plugins)
  if (disorder.length > 0) throw new ConfigError(disorder)
  return { config, plugins, reading }
}

/** A configuration on its way to another thread, which makes the same of it. It has the texts of all files. */
export interface SentConfig {
  readonly file: string
  readonly found: Found
  /** The address of the simulator, if one runs. */
  readonly simulator: string | undefined
}

/**
 * Makes a configuration of what another thread has read.
 * @throws ConfigError with every problem
 */
export function readSent(
  { file, found, simulator }: SentConfig,
  env: NodeJS.ProcessEnv,
  plugins: ReadonlyMap<string, Plugin>
): Promise<ReadConfig> {
  const url = simulator === undefined ? undefined : new URL(simulator)
  return readConfig({ file, env, plugins }, url, new GivenFiles(found))
}

/**
 * Reads the file at start and at every reload. The simulator is started for the first channel that needs it, and kept.
 */
export class ConfigReader {
  readonly #source: ConfigSource
  #simulator: Simulator | undefined
  #files = new Files()
  readonly #closing = new AbortController()
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

  /** The latest reading, to be sent to another thread. */
  get sent(): SentConfig {
    return { file: this.#source.file, found: this.#files.found, simulator: this.#simulatorUrl?.href }
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
    const apart = await this.#readApart()
    if (!apart) return (await this.lookAt()).config
    if ('problems' in apart) throw new ConfigError(apart.problems)
    return apart.config
  }

  /**
   * As {@link look}, with all that was read. `files` may have other texts than those on disk, which are held to
   * `trust`.
   * @throws ConfigError with every problem
   */
  lookAt(files?: Files, trust?: Trust): Promise<ReadConfig> {
    return readConfig(this.#source, this.#simulatorUrl, files, trust)
  }

  /** The files as they are on disk now, which need not be right. */
  reading(): Reading {
    return readFiles(this.#source.file, this.#source.env)
  }

  /** What a thread reads now and later is given up: who waits for it gets an Error. */
  giveUp(): void {
    this.#closing.abort(new Error('the gateway stops'))
  }

  /** Called when nothing uses the simulator any more. */
  async close(): Promise<void> {
    this.giveUp()
    await this.#simulator?.close()
  }

  get #simulatorUrl(): URL | undefined {
    return this.#simulator && new URL('/v1', this.#simulator.url)
  }

  async #read(): Promise<Config> {
    const apart = await this.#readApart()
    if (apart) {
      this.#files = apart.files
      if ('problems' in apart) throw new ConfigError(apart.problems)
      return apart.config
    }
    this.#files = new Files()
    const { config, plugins } = await readConfig(this.#source, this.#simulatorUrl, this.#files)
    this.#plugins = plugins
    return config
  }

  /**
   * Reads large files in a thread; undefined where this one is to read them: at a start, when nobody waits; where there
   * are plugins of the operator, as a thread does not know them and their modules may not be made for two threads; and
   * where the thread fails.
   * @throws Error when reading is given up
   */
  async #readApart(): Promise<ReadApart | undefined> {
    const { file, env } = this.#source
    const bytes = Array.from(this.#files.found.contents.values(), (one) => one.bytes?.length ?? 0)
    if (this.#plugins !== shippedPlugins || bytes.reduce((sum, one) => sum + one, 0) <= mostHere) return undefined
    const readRest = async (files: Files): Promise<Config> =>
      (await readConfig(this.#source, this.#simulatorUrl, files)).config
    const { signal } = this.#closing
    return readApart({ file, env, simulator: this.#simulatorUrl?.href }, readRest, signal).catch(() => {
      signal.throwIfAborted()
      return undefined
    })
  }
}
