// The settlement of an exchange: every release runs and every plugin is told, once.
import type { Chain } from './state/chain.ts'
import type { Outcome } from '../contract/contract.ts'
import { GatewayError, reasons } from '../errors.ts'
import type { LiveExchange } from './state/exchange.ts'

/** What a release has still to do. The plugin is empty for the core. */
interface Due {
  plugin: string
  promise: Promise<unknown>
}

const none: readonly never[] = []

/**
 * Starts every release, newest first, and tells every plugin: once per exchange. The promise is of what the end waits
 * for, if there is anything; it rejects with what a release threw on purpose, which is a GatewayError. Mistakes are
 * logged.
 */
export function settle(exchange: LiveExchange, chain: Chain, outcome: Outcome): Promise<void> | undefined {
  const dues: Due[] = []
  let began = performance.now()
  for (let i = exchange.releases.length - 1; i >= 0; i--) {
    const { view, call } = exchange.releases[i]!
    const plugin = view?.plugin ?? ''
    try {
      const promise = call(outcome)
      if (promise instanceof Promise) dues.push({ plugin, promise })
    } catch (error) {
      dues.push({ plugin, promise: Promise.reject(error) })
    }
    began = view ? exchange.took(view, 'release', began) : performance.now()
  }
  for (let i = 0; i < chain.onSettled.length; i++) {
    const { plugin, hook, call } = chain.onSettled[i]!
    const view = exchange.seenBy(plugin)
    try {
      // Its author may have made it asynchronous: nobody waits for it, but what it throws would end the process.
      const told = call(view, outcome) as unknown
      if (told instanceof Promise) told.catch((error: unknown) => failedWhenTold(exchange, plugin, error))
    } catch (error) {
      failedWhenTold(exchange, plugin, error)
    }
    began = exchange.took(view, hook, began)
  }
  const turns = exchange.session?.settled
  if (turns) dues.push({ plugin: '', promise: turns })
  const awaited = outcome.kind === 'completed' ? exchange.awaited : none
  return dues.length + awaited.length === 0 ? undefined : conclude(exchange, dues, awaited)
}

function failedWhenTold(exchange: LiveExchange, plugin: string, error: unknown): void {
  exchange.complain('a plugin failed when told of the outcome', { plugin, error: reasons(error) })
}

/** Waits for one after the other. Called in the turn in which they began. */
async function conclude(
  exchange: LiveExchange,
  dues: readonly Due[],
  awaited: readonly Promise<void>[]
): Promise<void> {
  // The first is waited for at once. Until it is the turn of another one, its rejection is not unhandled.
  for (let i = 1; i < dues.length; i++) dues[i]!.promise.catch(ignore)
  let failure: GatewayError | undefined
  for (let i = 0; i < dues.length; i++) {
    try {
      await dues[i]!.promise
    } catch (error) {
      if (error instanceof GatewayError) failure ??= error
      else exchange.complain('a release failed', { plugin: dues[i]!.plugin, error: reasons(error) })
    }
  }
  if (failure) throw failure
  for (let i = 0; i < awaited.length; i++) await awaited[i]
}

function ignore(): void {}
