// What a plugin is, how its author declares it, and what it is given.
import type { Allowance } from '../allowance.ts'
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import type { OptionSchemas, OptionValues } from '../options/schema.ts'
import type { Services } from '../store/services.ts'
import type { Awaitable, Exchange } from './exchange.ts'
import type { Hooks } from './hooks.ts'
import type { AnySlot, caller } from './slots.ts'

/**
 * The version of this contract, which each plugin carries. It is raised when a plugin written for the old version would
 * not work any more, and not when something is added.
 */
export const contractVersion = 1

/** Marks plugins, so that core also recognizes one that was declared with another copy of this file. */
const brand = Symbol.for('sluice.plugin')

/**
 * The typed name of a value that a plugin keeps across reloads. Each plugin has its own names, so two plugins may use
 * the same one.
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
 * A cache for one plugin. Each tenant has its own keys, so no exchange can reach what another tenant's exchange has
 * stored. All caches share `limits.cache_memory`, and the entries used longest ago are dropped first, so any entry may
 * be gone.
 */
export interface PluginCache {
  /** The stored value, which must not be changed. */
  get(exchange: Exchange<typeof caller>, key: string): Awaitable<Buffer | undefined>
  /**
   * Stores a copy of the value for at most `ttlMs` milliseconds. A value larger than an eighth of the cache is not
   * stored.
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
   * A value kept across reloads for as long as some generation uses it, such as counters, pools or health. `create`
   * runs when there is no value. `dispose` runs when the last generation that used it is over, after the hooks of that
   * generation were disposed. When another process takes the place of this one, `leave` says what it is to know of the
   * value: something that `structuredClone` can copy, at most a megabyte or so. `create` gets it there, once; it may
   * come from another version of the plugin.
   */
  share<T>(
    key: SharedKey<T>,
    create: (left?: unknown) => T,
    dispose?: (value: T) => Awaitable<void>,
    leave?: (value: T) => unknown
  ): T
  /**
   * How much of something all threads of the gateway use at one time, in all generations, such as requests that wait.
   * The plugin has names of its own. What a thread has taken that has ended is free. `unit`: each thread's part is
   * rounded up to so many, for what may be above two thousand million. Whoever takes says how much may be taken.
   */
  together(name: string, unit?: number): Allowance
}

/** A plugin as the registry holds it, its option types erased. */
export interface Plugin {
  readonly name: string
  readonly summary: string
  readonly options: OptionSchemas
  readonly required: readonly string[]
  /** `head`: runs before the request body is read and reads it itself when it needs it. Default `body`. */
  readonly reads: 'head' | 'body'
  /** Its hooks may run for requests that are only explained. Default false. */
  readonly rehearses: boolean
  /** Slots that a plugin above must fill in `onRequest`. */
  readonly needs: readonly AnySlot[]
  /** Slots read in a release or in `onSettled`, which any plugin of the chain may fill. */
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
  /** JSON Schema per option: the source of the check, the type, the editor's completion and the documentation. */
  options: Options
  required?: readonly Required[]
  reads?: 'head' | 'body'
  /**
   * Whether its hooks up to `onAttempt` may run for a request that is only explained to an operator. They must then
   * take, send, count, keep and change nothing where `exchange.rehearsal` is set; refusals are thrown as ever. Without
   * it the explanation names the plugin as skipped, and those that need its slots.
   */
  rehearses?: boolean
  /** The slots that the hooks may `get`. */
  needs?: Needs
  awaits?: readonly AnySlot[]
  provides?: readonly AnySlot[]
  /**
   * Runs once per generation, and may take up to 30 s. Anything that must survive a reload is kept with
   * `context.share`.
   */
  setup(config: OptionValues<Options, Required>, context: PluginContext): Awaitable<Hooks<Needs[number]>>
}

/** Declares a plugin. The options are typed from the literal, and the hooks from `needs`. */
export function definePlugin<
  const Options extends OptionSchemas,
  const Required extends keyof Options & string = never,
  const Needs extends readonly AnySlot[] = readonly []
>(definition: PluginDefinition<Options, Required, Needs>): Plugin {
  const plugin = {
    required: [],
    reads: 'body' as const,
    rehearses: false,
    needs: [],
    awaits: [],
    provides: [],
    ...definition
  }
  return Object.defineProperty(plugin, brand, { value: contractVersion, enumerable: true })
}

/** The version of the contract that a plugin was declared with; undefined when `value` is not a plugin. */
export function contractOf(value: unknown): number | undefined {
  const version = (value as { [brand]?: unknown } | null | undefined)?.[brand]
  return typeof version === 'number' ? version : undefined
}
