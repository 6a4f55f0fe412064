// A transport made of pools: which one a channel's requests go to, and for how long there is one.
import { createHash } from 'node:crypto'
import type { Channel } from '../catalogue/catalogue.ts'
import { Call } from './call.ts'
import { ChannelHead } from './channel-head.ts'
import type { Pool } from './pool.ts'
import type { HttpTransport, UpstreamCall, UpstreamRequest, UpstreamSink } from './transport.ts'

/** How long a connection may wait beyond its time. It is not used any more, it only is still there. */
const sweepMs = 5000

/** A pool and who needs it. */
interface Entry {
  readonly key: string
  readonly pool: Pool
  /** Of those who called `use`; the pool is closed with the last. */
  users: number
}

/** What a channel's requests need, made once. */
interface Route {
  readonly pool: Pool
  readonly head: ChannelHead
  readonly entry: Entry
}

/**
 * Channels share a pool when connecting to them is the same, those of different generations as well. With what
 * connecting depends on, a certificate for instance, the pool is another: what is new goes by the new one, and the old
 * one empties.
 */
export class PooledTransport implements HttpTransport {
  readonly #make: (channel: Channel) => Pool
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new Set<Pool>()
  readonly #routes = new WeakMap<Channel, Route>()
  #sweeper: NodeJS.Timeout | undefined

  /** `make` makes the pool of a channel, of which only counts what connecting depends on. */
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

/** What connecting depends on. A digest: there are secrets in it. */
function keyOf({ baseUrl, private: mayBePrivate, timeouts, tls, proxy, http, reuse }: Channel): string {
  return createHash('sha256')
    .update(JSON.stringify([baseUrl.origin, mayBePrivate, timeouts.connect, tls, proxy, http, reuse]))
    .digest('base64')
}
