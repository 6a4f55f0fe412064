// The transport over HTTP/1.1: which pool a channel's requests go to, and when connections that wait are looked through.
import type { Channel } from '../catalogue/catalogue.ts'
import { Call } from './call.ts'
import { Pool } from './pool.ts'
import { ChannelHead } from './channel-head.ts'
import type { Transport, UpstreamCall, UpstreamRequest, UpstreamSink } from './transport.ts'

/** How long a connection may wait beyond its time. It is not used any more, it only is still there. */
const sweepMs = 5000

/** What a channel's requests need, made at the first. */
interface Route {
  pool: Pool
  head: ChannelHead
}

/** On `node:net` and `node:tls`, with a parser of our own: no promise, no stream and no timer per request. */
export class Http1Transport implements Transport {
  /** By origin and what connecting depends on; shared by channels and generations. */
  readonly #pools = new Map<string, Pool>()
  readonly #routes = new WeakMap<Channel, Route>()
  #sweeper: NodeJS.Timeout | undefined

  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    let route = this.#routes.get(channel)
    if (!route) this.#routes.set(channel, (route = { pool: this.#poolOf(channel), head: new ChannelHead(channel) }))
    return new Call(route.pool, route.head.render(request), request.body, sink)
  }

  get connections(): number {
    let open = 0
    for (const pool of this.#pools.values()) open += pool.open
    return open
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper)
    await Promise.all(Array.from(this.#pools.values(), (pool) => pool.close()))
  }

  #poolOf(channel: Channel): Pool {
    const key = `${channel.baseUrl.origin} ${channel.private} ${channel.timeouts.connect}`
    let pool = this.#pools.get(key)
    if (!pool) this.#pools.set(key, (pool = new Pool(channel)))
    this.#sweeper ??= setInterval(() => this.#sweep(), sweepMs).unref()
    return pool
  }

  #sweep(): void {
    const now = performance.now()
    for (const pool of this.#pools.values()) pool.sweep(now)
  }
}
