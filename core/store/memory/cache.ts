// The cache in the memory of this process. When it is full, the entry used longest ago goes, from the plugin and tenant
// whose entries take most.
import type { Cache, CacheScope } from '../cache.ts'

interface Entry {
  value: Buffer
  /** When it expires, by performance.now(). */
  until: number
  size: number
}

/** The entries of one plugin and tenant, the one used last at the end; `bytes` is their total size. */
interface Bucket {
  entries: Map<string, Entry>
  bytes: number
}

/** The approximate number of bytes that an entry takes besides its key and value. */
const overhead = 200
/** One value may take up to one part in this many of the whole cache. */
const largestShare = 8

/**
 * A cache bounded in bytes. An expired entry is removed only when it is read, or when room is needed and it is next.
 */
export class MemoryCache implements Cache {
  readonly #limit: number
  readonly #buckets = new Map<string, Bucket>()
  #bytes = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** The bytes of all entries: keys, values and overhead. For metrics. */
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

  /**
   * Removes the oldest entry of the largest bucket, so that a tenant which fills the cache pushes out its own entries.
   */
  #makeRoom(): void {
    let [largest, fullest] = ['', undefined as Bucket | undefined]
    for (const [name, bucket] of this.#buckets)
      if (!fullest || bucket.bytes > fullest.bytes) [largest, fullest] = [name, bucket]
    const [key, entry] = fullest!.entries.entries().next().value!
    this.#remove(largest, fullest!, key, entry)
  }
}

/** The name of a bucket. It is unique, because no plugin has a line break in its name. */
function nameOf({ plugin, tenant }: CacheScope): string {
  return `${plugin}\n${tenant}`
}
