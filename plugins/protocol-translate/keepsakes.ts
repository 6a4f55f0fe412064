// What upstreams want back and clients cannot keep, by tenant: bounded, and forgotten after a while.
import type { Keepsake } from '../../core/contract/contract.ts'

/** Characters of all keepsakes together. */
const mostKept = 32 * 1024 * 1024
/** A tool may take long, and so may whoever is asked whether it may run. */
const keptMs = 6 * 3_600_000

interface Entry {
  keepsake: Keepsake
  size: number
  until: number
}

/** Oldest first; what is used stays longer. In memory, as an upstream goes on without, if less well. */
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

  keep(tenant: string, call: string, keepsake: Keepsake): void {
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

/** Ids of calls are the upstream's, and nobody may find those of another tenant. */
function keyOf(tenant: string, call: string): string {
  return `${tenant}\0${call}`
}
