// What upstreams need again and clients cannot keep, by tenant.
import type { Awaitable, Keepsake, PluginContext } from '../../core/contract/contract.ts'

/** How long a keepsake is kept, in milliseconds: a tool may take long, and so may the person who must allow it. */
const keptMs = 6 * 3_600_000

type Cache = PluginContext['services']['cache']

/**
 * Keepsakes. They are in the cache alone, because upstreams accept a request without them, although they answer it less
 * well.
 */
export class Keepsakes {
  readonly #cache: Cache

  constructor(cache: Cache) {
    this.#cache = cache
  }

  /** Those of calls, by the ids of the calls. */
  find(tenant: string, calls: readonly string[]): Awaitable<ReadonlyMap<string, Keepsake>> {
    const found = new Map<string, Keepsake>()
    const add = (call: string, bytes: Buffer | undefined): void => {
      if (bytes) found.set(call, JSON.parse(bytes.toString()) as Keepsake)
    }
    const late: Promise<void>[] = []
    for (const call of calls) {
      const bytes = this.#cache.get(scopeOf(tenant), call)
      if (bytes instanceof Promise) late.push(bytes.then((there) => add(call, there)))
      else add(call, bytes)
    }
    return late.length === 0 ? found : Promise.all(late).then(() => found)
  }

  put(tenant: string, call: string, keepsake: Keepsake): void {
    void this.#cache.set(scopeOf(tenant), call, JSON.stringify(keepsake), keptMs)
  }
}

/** The upstream makes the ids of calls, so no tenant may find another's keepsake. Without keys all are one tenant. */
function scopeOf(tenant: string): { plugin: string; tenant: string } {
  return { plugin: 'protocol-translate', tenant }
}
