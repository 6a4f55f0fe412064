// The gateway's own transport over HTTP/1.1: no promise, no stream and no timer per request.
import type { Channel } from '../../catalogue/catalogue.ts'
import { Connection } from './connection.ts'
import type { Open } from './connection.ts'
import { Connector } from '../connecting/connector.ts'
import { Pool } from '../pool.ts'
import { PooledTransport } from '../pooled-transport.ts'

/** Uses `node:net`, `node:tls` and the gateway's own parser. */
export class Http1Transport extends PooledTransport {
  constructor() {
    super(poolOf)
  }
}

function poolOf(channel: Channel): Pool {
  const connector = new Connector(channel)
  const open: Open = (onread) => connector.open(onread)
  return new Pool((keeper) => new Connection(keeper, open, connector.secure, channel.timeouts.connect), channel.reuse)
}
