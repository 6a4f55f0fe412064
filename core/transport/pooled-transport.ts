// A transport made of pools: which pool the requests to a channel use, and how long a pool lives.
import { createHash } from 'node:crypto'
import type { Channel } from '../catalogue/catalogue.ts'
import { Call } from './call.ts'
import { ChannelHead } from './http1/channel-head.ts'
import type { Pool } from './pool.ts'
import type { HttpTransport, UpstreamCall, UpstreamRequest, UpstreamSink } from './transport.ts'

/** How much longer than its time an idle connection may stay open, unused. */
const sweepMs = 5000

/** A pool and the number of its users. */
interface Entry {
  readonly key: string
  readonly pool: Pool
  /** The `use` calls that were not released yet; the pool is closed after the last. */
  users: number
}

/** The pool and the head for the requests to one channel, made once. */
interface Route {
  readonly pool: Pool
  readonly head: ChannelHead
  readonly entry: Entry
}

/**
 * Channels share a pool when they connect in the same way, also across generations. When something that matters for
 * connecting changes, such as a certificate, new requests use a new pool, and the old one empties.
 */
export class PooledTransport implements HttpTransport {
  readonly #make: (channel: Channel) => Pool
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new Set<Pool>()
  readonly #routes = new WeakMap<Channel, Route>()
  #sweeper: NodeJS.Timeout | undefined

  /** `make` makes the pool for a channel. It may use only what {@link keyOf} covers. */
  constructor(make: (channel: Channel) => Pool) {
    this.#make = make
  }

  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    const { pool, head } = this.#routes.get(channel) ?? this.#begin(channel)
    return new Call(pool, head.render(request), request, sink)
  }

  async use(channels: Iterable<Channel>): Promise<() => void> {
    const entries = new Set(
      Array.from(channels, (channel) => (this.#routes.get(channel) ?? this.#begin(channel)).entry)
    )
    for (const entry of entries) entry.users++
    return () => {
      for (const entry of entries) if (--entry.users === 0) this.#end(entry)
      entries.clear()
    }
  }

  get connections(): number {
    let open = 0
    for (const { pool } of this.#entries.values()) open += pool.open
    for (const pool of this.#closing) open += pool.open
    return open
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper)
    await Promise.all(
      [...Array.from(this.#entries.values(), ({ pool }) => pool), ...this.#closing].map((pool) => pool.close())
    )
  }

  #begin(channel: Channel): Route {
    const head = new ChannelHead(channel)
    const key = keyOf(channel)
    let entry = this.#entries.get(key)
    if (!entry) this.#entries.set(key, (entry = { key, pool: this.#make(channel), users: 0 }))
    this.#sweeper ??= setInterval(() => this.#sweep(), sweepMs).unref()
    const route: Route = { pool: entry.pool, head, entry }
    this.#routes.set(channel, route)
    return route
  }

  #end({ key, pool }: Entry): void {
    this.#entries.delete(key)
    this.#closing.add(pool)
    void pool.close().then(() => this.#closing.delete(pool))
  }

  #sweep(): void {
    const now = performance.now()
    for (const { pool } of this.#entries.values()) pool.sweep(now)
  }
}

/** Identifies everything that connecting depends on. It is a digest because that includes secrets. */
function keyOf({ baseUrl, private: mayBePrivate, timeouts, tls, proxy, http, reuse }: Channel): string {
  return createHash('sha256')
    .update(JSON.stringify([baseUrl.origin, mayBePrivate, timeouts.connect, tls, proxy, http, reuse]))
    .digest('base64')
}
