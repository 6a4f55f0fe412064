// Makes the contexts that the plugins of a generation are given.
import type { Catalogue } from '../catalogue/catalogue.ts'
import { caller } from '../contract/slots.ts'
import type { Exchange, Plugin, PluginCache, PluginContext } from '../contract/contract.ts'
import type { Cache, CacheScope } from '../store/cache.ts'
import type { Services } from '../store/services.ts'
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import type { SharedUser } from './generation.ts'

/** The parts of a context. The catalogue and the shared values belong to the generation, the others to the gateway. */
export interface ContextParts {
  services: Services
  metrics: PluginMetrics
  log: Logger
  catalogue: Catalogue
  shared: SharedUser
}

/** The context of one plugin. */
export function contextOf(plugin: Plugin, { services, metrics, log, catalogue, shared }: ContextParts): PluginContext {
  const { name } = plugin
  return {
    catalogue,
    services,
    metrics,
    log: log.child({ plugin: name }),
    cache: cacheOf(name, services.cache),
    share: shared.share(plugin),
    together: (of, unit) => shared.allowances(`${name}/${of}`, unit)
  }
}

/** Entries belong to the tenant of the exchange's key, so no plugin can reach those of another tenant. */
function cacheOf(plugin: string, cache: Cache): PluginCache {
  const scope = (exchange: Exchange<typeof caller>): CacheScope => ({ plugin, tenant: exchange.get(caller).tenant })
  return {
    get: (exchange, key) => cache.get(scope(exchange), key),
    set: (exchange, key, value, ttlMs) => cache.set(scope(exchange), key, value, ttlMs),
    delete: (exchange, key) => cache.delete(scope(exchange), key)
  }
}
