// Finds ports for gateways whose address must be known before they start.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'

/** A port that is free now, of those that no system gives to who asks for any: other tests do not take it meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(20_000 + Math.floor(Math.random() * 12_000), '127.0.0.1')
    const free = await once(server, 'listening').then(
      () => true,
      () => false
    )
    const { port } = (server.address() ?? {}) as Partial<AddressInfo>
    server.close()
    if (free) return port!
  }
}
