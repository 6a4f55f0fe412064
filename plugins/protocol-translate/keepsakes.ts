// What upstreams need again and clients cannot keep, by tenant. It is limited in size and time.
import type { Keepsake } from '../../core/contract/contract.ts'

/** The most characters of all keepsakes together. */
const mostKept = 32 * 1024 * 1024
/** How long a keepsake is kept, in milliseconds: a tool may take long, and so may the person who must allow it. */
const keptMs = 6 * 3_600_000

interface Entry {
  keepsake: Keepsake
  size: number
  until: number
}

/**
 * Keepsakes, those used longest ago first, which are dropped first. They are in memory only, because upstreams accept a
 * request without them, although they answer it less well.
 */
export class Keepsakes {
  readonly #entries = new Map<string, Entry>()
  #size = 0

  find(tenant: string, call: string): Keepsake | undefined {
    const key = keyOf(tenant, call)
    const entry = this.#entries.get(key)
    if (!entry || entry.until < performance.now()) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.keepsake
  }

  put(tenant: string, call: string, keepsake: Keepsake): void {
    const key = keyOf(tenant, call)
    const size = key.length + JSON.stringify(keepsake).length
    this.#drop(key)
    this.#entries.set(key, { keepsake, size, until: performance.now() + keptMs })
    this.#size += size
    for (const [oldest, { until }] of this.#entries) {
      if (this.#size <= mostKept && until >= performance.now()) return
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#entries.delete(key)
    this.#size -= entry.size
  }
}

/** The upstream makes the ids of calls, so the tenant is part of the key: no tenant may find another's keepsake. */
function keyOf(tenant: string, call: string): string {
  return `${tenant}\0${call}`
}
