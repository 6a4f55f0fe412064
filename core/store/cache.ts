// A cache: values that may be gone at any time, each plugin's and tenant's apart.

/** Whose entries are meant. */
export interface CacheScope {
  plugin: string
  tenant: string
}

/**
 * A bounded, expiring key-value store. A value or a promise: the embedded one answers at once, a shared one asks over
 * the network.
 */
export interface Cache {
  /** The value, which is not to be changed; undefined when there is none, or none any more. */
  get(scope: CacheScope, key: string): Buffer | undefined | Promise<Buffer | undefined>
  /** Keeps a copy of the value, for at most so many milliseconds. One that is too large for the cache is not kept. */
  set(scope: CacheScope, key: string, value: Uint8Array | string, ttlMs: number): void | Promise<void>
  delete(scope: CacheScope, key: string): void | Promise<void>
}
