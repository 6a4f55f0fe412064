// The transport over HTTP/1.1 that is our own.
import type { Channel } from '../catalogue/catalogue.ts'
import { Call } from './call.ts'
import { Connection } from './connection.ts'
import type { Open } from './connection.ts'
import { Connector } from './connector.ts'
import { Pool } from './pool.ts'
import { Pools } from './pools.ts'
import type { Transport, UpstreamCall, UpstreamRequest, UpstreamSink } from './transport.ts'

/** On `node:net` and `node:tls`, with a parser of our own: no promise, no stream and no timer per request. */
export class Http1Transport implements Transport {
  readonly #pools = new Pools(poolOf)

  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    const { pool, head } = this.#pools.route(channel)
    return new Call(pool, head.render(request), request.body, sink)
  }

  async use(channels: Iterable<Channel>): Promise<() => void> {
    return this.#pools.use(channels)
  }

  get connections(): number {
    return this.#pools.connections
  }

  close(): Promise<void> {
    return this.#pools.close()
  }
}

function poolOf(channel: Channel): Pool {
  const connector = new Connector(channel)
  const open: Open = (onread) => connector.open(onread)
  return new Pool((keeper) => new Connection(keeper, open, connector.secure, channel.timeouts.connect), channel.reuse)
}
