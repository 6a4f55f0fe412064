// The interface of the cache of plugins. A value may disappear at any time; each plugin has separate entries for each
// tenant.
import type { Awaitable } from '../awaitable.ts'

/** The plugin and the tenant that entries belong to. */
export interface CacheScope {
  plugin: string
  tenant: string
}

/**
 * A key-value store of bounded size whose entries expire. The built-in one returns values; one shared over the network
 * would return promises.
 */
export interface Cache {
  /** Returns the value, which the caller must not change; undefined when there is none or it has expired. */
  get(scope: CacheScope, key: string): Awaitable<Buffer | undefined>
  /**
   * Keeps a copy of the value for at most `ttlMs` milliseconds. A value that is too large for the cache is not kept.
   */
  set(scope: CacheScope, key: string, value: Uint8Array | string, ttlMs: number): Awaitable<void>
  delete(scope: CacheScope, key: string): Awaitable<void>
}
