// The transport that is undici's: for proxies, for HTTP/2, and for whoever prefers it. Loaded with the first channel
// that needs it.
import type { Channel } from '../catalogue/catalogue.ts'
import { Dialer } from './dialer.ts'
import { Pool } from './pool.ts'
import { PooledTransport } from './pooled-transport.ts'
import { UndiciConnection } from './undici-connection.ts'
import { tunnelsOf } from './tunnel.ts'
import { sessionPool } from './undici-session.ts'

/** Calls, pools and sockets are those of our own transport; what is said on a socket is undici's. */
export class UndiciTransport extends PooledTransport {
  constructor() {
    super(poolOf)
  }
}

function poolOf(channel: Channel): Pool {
  if (channel.http === 2) return sessionPool(channel)
  const dialer = new Dialer(channel, tunnelsOf(channel))
  return new Pool((keeper) => new UndiciConnection(keeper, channel.baseUrl.origin, dialer), channel.reuse)
}
