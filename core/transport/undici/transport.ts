// The transport that uses undici: for proxies, for HTTP/2, and for channels that choose it. It is loaded with the first
// such channel.
import type { Channel } from '../../catalogue/catalogue.ts'
import { Dialer } from '../connecting/dialer.ts'
import { Pool } from '../pool.ts'
import { PooledTransport } from '../pooled-transport.ts'
import { UndiciConnection } from './connection.ts'
import { tunnelsOf } from '../connecting/tunnel.ts'
import { sessionPool } from './session.ts'

/** Calls, pools and sockets are those of the gateway's own transport; undici speaks HTTP on the sockets. */
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
