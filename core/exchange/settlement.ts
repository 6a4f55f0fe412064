// The settlement of an exchange: every release runs and every plugin is told, once.
import type { Chain } from './state/chain.ts'
import type { Outcome } from '../contract/contract.ts'
import { GatewayError, reasons } from '../errors.ts'
import type { LiveExchange } from './state/exchange.ts'

/** What a release has still to do. */
interface Due {
  plugin: string
  promise: Promise<unknown>
}

/**
 * Starts every release, newest first, and tells every plugin: once per exchange. The promise is of what the end waits
 * for, if there is anything; it rejects with what a release threw on purpose, which is a GatewayError. Mistakes are
 * logged.
 */
export function settle(exchange: LiveExchange, chain: Chain, outcome: Outcome): Promise<void> | undefined {
  const dues: Due[] = []
  let began = performance.now()
  for (let i = exchange.releases.length - 1; i >= 0; i--) {
    const { plugin, call } = exchange.releases[i]!
    try {
      const promise = call(outcome)
      if (promise instanceof Promise) dues.push({ plugin, promise: heeded(promise) })
    } catch (error) {
      dues.push({ plugin, promise: heeded(Promise.reject(error)) })
    }
    began = exchange.took(plugin, 'release', began)
  }
  for (let i = 0; i < chain.onSettled.length; i++) {
    const { plugin, hook, call } = chain.onSettled[i]!
    try {
      call(exchange.seenBy(plugin), outcome)
    } catch (error) {
      exchange.complain('a plugin failed when told of the outcome', { plugin, error: reasons(error) })
    }
    began = exchange.took(plugin, hook, began)
  }
  const turns = exchange.session?.settled
  if (turns) dues.push({ plugin: '', promise: heeded(turns) })
  const awaited = outcome.kind === 'completed' ? exchange.awaited : []
  return dues.length + awaited.length === 0 ? undefined : heeded(conclude(exchange, dues, awaited))
}

async function conclude(
  exchange: LiveExchange,
  dues: readonly Due[],
  awaited: readonly Promise<void>[]
): Promise<void> {
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

/** The promise, whose rejection is looked at later. */
function heeded<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore)
  return promise
}

function ignore(): void {}
