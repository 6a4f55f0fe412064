// What a plugin is, how its author declares it, and what it is given.
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import type { OptionSchemas, OptionValues } from '../options/schema.ts'
import type { Services } from '../store/services.ts'
import type { Awaitable, Exchange } from './exchange.ts'
import type { Hooks } from './hooks.ts'
import type { AnySlot, caller } from './slots.ts'

/**
 * Of this contract; a plugin carries the one it was declared with. It grows when a plugin written for it would not work
 * with the next, not when something is added.
 */
export const contractVersion = 1

/** By it a plugin is known, also one that was declared with another copy of this file. */
const brand = Symbol.for('sluice.plugin')

/**
 * The typed name of something that a plugin keeps across reloads. Names are the plugin's own: two plugins may use the
 * same.
 */
export interface SharedKey<T> {
  readonly name: string
  /** Phantom: carries the type only. */
  readonly type?: T
}

/** Declares a {@link SharedKey}. */
export function sharedKey<T>(name: string): SharedKey<T> {
  return { name }
}

/**
 * What a plugin keeps for a while. Keys are the plugin's and the tenant's own: no exchange can reach what another
 * tenant's has kept. Bounded for all together (`limits.cache_memory`), and what was used longest ago makes room, so
 * nothing is sure to be there.
 */
export interface PluginCache {
  /** The value, which is not to be changed. */
  get(exchange: Exchange<typeof caller>, key: string): Awaitable<Buffer | undefined>
  /**
   * Keeps a copy of the value, for at most so many milliseconds. One that is larger than an eighth of the cache is not
   * kept.
   */
  set(exchange: Exchange<typeof caller>, key: string, value: Uint8Array | string, ttlMs: number): Awaitable<void>
  delete(exchange: Exchange<typeof caller>, key: string): Awaitable<void>
}

/** What a plugin is given when its generation is built. */
export interface PluginContext {
  /** Channels, models, tenants and keys of this generation. */
  readonly catalogue: Catalogue
  /** The stores: keys, ledger, limits, request log. They outlive generations. */
  readonly services: Services
  /** Metrics named `sluice_<name>`; the same name returns the same metric in every generation. */
  readonly metrics: PluginMetrics
  readonly log: Logger
  readonly cache: PluginCache
  /**
   * A value kept across reloads for as long as some generation uses it: counters, pools, health. `create` runs when
   * there is none, `dispose` when the last generation that used it is over, after the hooks of that generation were
   * disposed.
   */
  share<T>(key: SharedKey<T>, create: () => T, dispose?: (value: T) => Awaitable<void>): T
}

/** A plugin as the registry holds it, its option types erased. */
export interface Plugin {
  readonly name: string
  readonly summary: string
  readonly options: OptionSchemas
  readonly required: readonly string[]
  /** `head`: runs before the request body is read and reads it itself when it needs it. Default `body`. */
  readonly reads: 'head' | 'body'
  /** Slots that a plugin above must fill in `onRequest`. */
  readonly needs: readonly AnySlot[]
  /** Slots read in a release or in `onSettled`: filled by any plugin of the chain. */
  readonly awaits: readonly AnySlot[]
  readonly provides: readonly AnySlot[]
  setup(config: any, context: PluginContext): Awaitable<Hooks<any>>
}

/** A plugin as its author writes it. */
export interface PluginDefinition<
  Options extends OptionSchemas,
  Required extends keyof Options & string,
  Needs extends readonly AnySlot[]
> {
  /** The word in `chain:` of gateway.yaml; kebab-case. */
  name: string
  /** One sentence for the table of plugins. */
  summary: string
  /** JSON Schema per option: gives the check, the type, the editor's completion and the documentation. */
  options: Options
  required?: readonly Required[]
  reads?: 'head' | 'body'
  /** Slots that hooks `get`: no others. */
  needs?: Needs
  awaits?: readonly AnySlot[]
  provides?: readonly AnySlot[]
  /**
   * Runs once per generation, and may take up to 30 s. Anything that must survive a reload is kept with
   * `context.share`.
   */
  setup(config: OptionValues<Options, Required>, context: PluginContext): Awaitable<Hooks<Needs[number]>>
}

/** Declares a plugin: option types flow from the literal into `setup`, and the types of `needs` into the hooks. */
export function definePlugin<
  const Options extends OptionSchemas,
  const Required extends keyof Options & string = never,
  const Needs extends readonly AnySlot[] = readonly []
>(definition: PluginDefinition<Options, Required, Needs>): Plugin {
  const plugin = { required: [], reads: 'body' as const, needs: [], awaits: [], provides: [], ...definition }
  return Object.defineProperty(plugin, brand, { value: contractVersion, enumerable: true })
}

/** The version of the contract that a plugin was declared with; undefined for what is no plugin. */
export function contractOf(value: unknown): number | undefined {
  const version = (value as { [brand]?: unknown } | null | undefined)?.[brand]
  return typeof version === 'number' ? version : undefined
}
