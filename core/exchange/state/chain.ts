// Compiles the plugins of a configuration into one array of hooks per phase, and refuses an order that cannot work.
import type {
  Exchange,
  Hooks,
  Plugin,
  PluginContext,
  UpstreamResponse,
  Stage,
  Awaitable
} from '../../contract/contract.ts'
import type { ChannelHealth } from '../../contract/health.ts'
import { checkSynchronous } from '../../contract/synchronous.ts'
import type { ChainEntry, Problem } from '../../catalogue/settings.ts'
import type { Slot } from '../../contract/slots.ts'
import type { TimedHook } from '../../contract/times.ts'
import type { Logger } from '../../telling/log.ts'
import { thrownMessage, thrownText } from '../../thrown.ts'

/** A set-up that takes longer has failed: no reload is possible while it runs. */
const setUpMs = 30_000

/** A hook with the name of its plugin, for logs, times and `internal_error`. */
interface Named<F, Hook = TimedHook> {
  plugin: string
  hook: Hook
  call: F
}

export type OnRequest = Named<NonNullable<Hooks['onRequest']>> & { readsBody: boolean }

/** The hooks of one generation, absent ones left out. Immutable. */
export interface Chain {
  /** Its plugins in order, each with the names of its hooks. */
  readonly members: readonly { readonly plugin: Plugin; readonly hooks: readonly string[] }[]
  readonly onRequest: readonly OnRequest[]
  readonly onModel: readonly Named<NonNullable<Hooks['onModel']>>[]
  readonly onCandidates: readonly Named<NonNullable<Hooks['onCandidates']>>[]
  readonly selectChannel: Named<NonNullable<Hooks['selectChannel']>> | undefined
  readonly onAttempt: readonly Named<NonNullable<Hooks['onAttempt']>>[]
  /** Last plugin first: a response travels up the chain. */
  readonly onResponse: readonly Named<(exchange: Exchange, response: UpstreamResponse) => Awaitable<Stage | void>>[]
  readonly onTurn: readonly Named<NonNullable<Hooks['onTurn']>>[]
  readonly whileOpen: readonly Named<NonNullable<Hooks['whileOpen']>, 'whileOpen'>[]
  readonly onSettled: readonly Named<NonNullable<Hooks['onSettled']>>[]
  readonly onConcluded: readonly Named<NonNullable<Hooks['onConcluded']>, 'onConcluded'>[]
  readonly reportStandings: readonly Named<NonNullable<Hooks['reportStandings']>, 'reportStandings'>[]
  /** What the first plugin with this hook says; nothing when there is none, or when it throws, which is logged. */
  reportHealth(): Readonly<Record<string, ChannelHealth>>
  /**
   * The `onResponse` hooks of the plugins above one, for what it answers by itself; all of them for a name that is
   * none.
   */
  above(plugin: string): Chain['onResponse']
  /** The plugins that may be asked about a request that is only explained, and the names of those that may not. */
  readonly rehearsed: { readonly chain: Chain; readonly skipped: readonly string[] }
  /** Runs every plugin's `dispose`, last plugin first; what one of them throws is logged. Never rejects. */
  dispose(): Promise<void>
}

/**
 * What is wrong with the order of a chain; empty when nothing is. `place` turns an entry's position into
 * `file:line:col`.
 */
export function checkOrder(entries: readonly ChainEntry[], plugins: ReadonlyMap<string, Plugin>): Problem[] {
  const problems: Problem[] = []
  const chain = entries.flatMap((entry) => {
    const plugin = plugins.get(entry.plugin)
    return plugin ? [{ entry, plugin }] : []
  })
  const providers = (slot: Slot<unknown>): string[] =>
    [...plugins.values()].filter((plugin) => plugin.provides.includes(slot)).map(({ name }) => name)
  const filled = new Set<Slot<unknown>>()
  const provided = new Set(chain.flatMap(({ plugin }) => plugin.provides))
  for (const { entry, plugin } of chain) {
    for (const slot of plugin.needs) {
      if (filled.has(slot)) continue
      const name = providers(slot).join(' or ') || 'a plugin that provides it'
      const remedy = provided.has(slot) ? `put it below ${name}` : `add ${name} above it`
      problems.push({ place: entry.place, message: `${plugin.name} needs ${slot.name}: ${remedy}` })
    }
    for (const slot of plugin.awaits) {
      if (provided.has(slot)) continue
      problems.push({
        place: entry.place,
        message: `${plugin.name} awaits ${slot.name}: add ${providers(slot).join(' or ') || 'a plugin that provides it'} to the chain`
      })
    }
    for (const slot of plugin.provides) {
      if (filled.has(slot))
        problems.push({
          place: entry.place,
          message: `${plugin.name} provides ${slot.name}, which a plugin above it provides already`
        })
      filled.add(slot)
    }
  }
  return problems
}

/**
 * Makes the chain of a generation: every plugin's `setup` runs once, in order. When one fails, the ones before are
 * disposed.
 * @throws Error that names the plugin
 */
export async function compileChain(
  entries: readonly ChainEntry[],
  plugins: ReadonlyMap<string, Plugin>,
  context: (plugin: Plugin) => PluginContext
): Promise<Chain> {
  const made: Made[] = []
  const dispose = async (): Promise<void> => {
    for (const { log, hooks } of made.reverse()) {
      try {
        await hooks.dispose?.()
      } catch (error) {
        log.error('a plugin could not be disposed', { error: thrownText(error) })
      }
    }
  }
  try {
    for (const entry of entries) {
      const plugin = plugins.get(entry.plugin)
      if (!plugin) throw new Error(`there is no plugin ${entry.plugin}`)
      const surroundings = context(plugin)
      made.push({ plugin, hooks: await setUp(plugin, entry.options, surroundings), log: surroundings.log })
    }
    const selectors = made.filter(({ hooks }) => hooks.selectChannel)
    if (selectors.length !== 1) {
      const names = selectors.map(({ plugin }) => plugin.name).join(' and ')
      throw new Error(
        `a chain needs exactly one plugin that selects the channel: ${names ? `${names} both do` : 'add route'}`
      )
    }
  } catch (error) {
    await dispose()
    throw error
  }
  return chainOf(made, dispose)
}

/** A plugin that was set up. */
interface Made {
  plugin: Plugin
  hooks: Hooks
  log: Logger
}

function chainOf(made: readonly Made[], dispose: () => Promise<void>): Chain {
  const names = made.map(({ plugin }) => plugin.name)
  const named = <K extends keyof Hooks>(key: K): Named<NonNullable<Hooks[K]>, K>[] =>
    made.flatMap(({ plugin, hooks }) =>
      hooks[key] ? [{ plugin: plugin.name, hook: key, call: hooks[key].bind(hooks) as NonNullable<Hooks[K]> }] : []
    )
  const onResponse = named('onResponse').reverse()
  return {
    members: made.map(({ plugin, hooks }) => ({
      plugin,
      hooks: Object.keys(hooks).filter((name) => name !== 'dispose' && typeof hooks[name as keyof Hooks] === 'function')
    })),
    onRequest: made.flatMap(({ plugin, hooks }) =>
      hooks.onRequest
        ? [
            {
              plugin: plugin.name,
              hook: 'onRequest',
              readsBody: plugin.reads === 'body',
              call: hooks.onRequest.bind(hooks)
            }
          ]
        : []
    ),
    onModel: named('onModel'),
    onCandidates: named('onCandidates'),
    selectChannel: named('selectChannel')[0],
    onAttempt: named('onAttempt'),
    onResponse,
    above(plugin) {
      const place = names.indexOf(plugin)
      return place === -1 ? onResponse : onResponse.filter((hook) => names.indexOf(hook.plugin) < place)
    },
    onTurn: named('onTurn'),
    whileOpen: named('whileOpen'),
    onSettled: named('onSettled'),
    onConcluded: named('onConcluded'),
    reportHealth: () => reportHealth(made),
    reportStandings: named('reportStandings'),
    get rehearsed() {
      const skipped = skippedOf(made)
      return {
        chain: chainOf(
          made.filter(({ plugin }) => !skipped.includes(plugin.name)),
          dispose
        ),
        skipped
      }
    },
    dispose
  }
}

function reportHealth(made: readonly Made[]): Readonly<Record<string, ChannelHealth>> {
  const first = made.find(({ hooks }) => hooks.reportHealth)
  try {
    const health = first?.hooks.reportHealth?.() ?? {}
    checkSynchronous(health, 'reportHealth')
    return health
  } catch (error) {
    first?.log.error('a plugin could not tell the health of the channels', { error: thrownText(error) })
    return {}
  }
}

/** The hooks that run before a request is sent. */
const before = ['onModel', 'onRequest', 'onCandidates', 'selectChannel', 'onAttempt'] as const

/** The plugins that must not run for requests that are only explained, and those below that need what they fill. */
function skippedOf(made: readonly Made[]): string[] {
  const unfilled = new Set<unknown>()
  const skipped: string[] = []
  for (const { plugin, hooks } of made) {
    if (!before.some((name) => hooks[name])) continue
    // A plugin that was made with an older copy of the contract does not say it.
    if ((plugin.rehearses as boolean | undefined) && !plugin.needs.some((slot) => unfilled.has(slot))) continue
    skipped.push(plugin.name)
    for (const slot of plugin.provides) unfilled.add(slot)
  }
  return skipped
}

async function setUp(plugin: Plugin, options: unknown, context: PluginContext): Promise<Hooks> {
  let late = false
  let timer: NodeJS.Timeout | undefined
  const made = Promise.resolve().then(() => plugin.setup(options, context))
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      late = true
      reject(new Error(`is not set up after ${setUpMs / 1000} s`))
    }, setUpMs)
  })
  try {
    return await Promise.race([made, timeout])
  } catch (cause) {
    // What comes of it after all is used by nobody.
    if (late)
      made
        .then((hooks) => hooks.dispose?.())
        .catch((error: unknown) => context.log.error('a plugin could not be disposed', { error: thrownText(error) }))
    throw new Error(`${plugin.name}: ${thrownMessage(cause)}`, { cause })
  } finally {
    clearTimeout(timer)
  }
}
