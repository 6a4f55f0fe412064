// The cache of plugins that several threads share: it is in the memory of one, and the others ask for it by messages.
import type { Cache, CacheScope } from '../cache.ts'
import type { Line, Served } from './line.ts'

/** The cache of whoever has none. One that cannot be asked any more has nothing. */
export function cacheThere(line: Pick<Line, 'ask'>): Cache {
  return {
    get: (scope, key) => line.ask<Buffer | undefined>('cached', scope, key).catch(() => undefined),
    set(scope, key, value, ttlMs) {
      // What is sent later must be what it is now.
      const copy = typeof value === 'string' ? value : Buffer.from(value)
      return line.ask<void>('cache', scope, key, copy, ttlMs).catch(() => {})
    },
    delete: (scope, key) => line.ask<void>('uncache', scope, key).catch(() => {})
  }
}

/** Answers for the cache that is here. */
export function servedCache(cache: Cache): Served {
  return {
    cached: (scope: CacheScope, key: string) => cache.get(scope, key),
    cache: (scope: CacheScope, key: string, value: Uint8Array | string, ttlMs: number) =>
      cache.set(scope, key, value, ttlMs),
    uncache: (scope: CacheScope, key: string) => cache.delete(scope, key)
  }
}
