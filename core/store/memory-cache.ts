// A cache in the memory of this process: what was used longest ago makes room, that of the tenant with the most first.
import type { Cache, CacheScope } from './cache.ts'

interface Entry {
  value: Buffer
  /** `performance.now()` from which on it is gone. */
  until: number
  size: number
}

/** The entries of one plugin and tenant, the one used last at the end. */
interface Bucket {
  entries: Map<string, Entry>
  bytes: number
}

/** What an entry takes beside its key and value, about. */
const overhead = 200
/** Of the whole cache that one value may take. */
const largestShare = 8

/** Bounded in bytes. What expired makes room only when it is asked for, or its turn comes. */
export class MemoryCache implements Cache {
  readonly #limit: number
  readonly #buckets = new Map<string, Bucket>()
  #bytes = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Of keys, values and what is around them, for metrics. */
  get bytes(): number {
    return this.#bytes
  }

  get(scope: CacheScope, key: string): Buffer | undefined {
    const name = nameOf(scope)
    const bucket = this.#buckets.get(name)
    const entry = bucket?.entries.get(key)
    if (!bucket || !entry) return undefined
    this.#remove(name, bucket, key, entry)
    if (entry.until <= performance.now()) return undefined
    this.#add(name, key, entry)
    return entry.value
  }

  set(scope: CacheScope, key: string, value: Uint8Array | string, ttlMs: number): void {
    this.delete(scope, key)
    const bytes = typeof value === 'string' ? Buffer.from(value) : Buffer.from(value)
    const size = bytes.length + key.length * 2 + overhead
    if (size > this.#limit / largestShare || !(ttlMs > 0)) return
    this.#add(nameOf(scope), key, { value: bytes, until: performance.now() + ttlMs, size })
    while (this.#bytes > this.#limit) this.#makeRoom()
  }

  delete(scope: CacheScope, key: string): void {
    const name = nameOf(scope)
    const bucket = this.#buckets.get(name)
    const entry = bucket?.entries.get(key)
    if (bucket && entry) this.#remove(name, bucket, key, entry)
  }

  #add(name: string, key: string, entry: Entry): void {
    let bucket = this.#buckets.get(name)
    if (!bucket) this.#buckets.set(name, (bucket = { entries: new Map(), bytes: 0 }))
    bucket.entries.set(key, entry)
    bucket.bytes += entry.size
    this.#bytes += entry.size
  }

  #remove(name: string, bucket: Bucket, key: string, entry: Entry): void {
    bucket.entries.delete(key)
    bucket.bytes -= entry.size
    this.#bytes -= entry.size
    if (bucket.entries.size === 0) this.#buckets.delete(name)
  }

  /** A tenant that fills the cache pushes out what is its own. */
  #makeRoom(): void {
    let [largest, fullest] = ['', undefined as Bucket | undefined]
    for (const [name, bucket] of this.#buckets)
      if (!fullest || bucket.bytes > fullest.bytes) [largest, fullest] = [name, bucket]
    const [key, entry] = fullest!.entries.entries().next().value!
    this.#remove(largest, fullest!, key, entry)
  }
}

/** No plugin has a line break in its name. */
function nameOf({ plugin, tenant }: CacheScope): string {
  return `${plugin}\n${tenant}`
}
