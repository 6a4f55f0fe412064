// Finds ports for gateways whose address must be known before they start.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'

/**
 * A port that is free now, of those that no system gives to who asks for any. No test of this machine gets the same one
 * or the one after it before this process ends.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(20_000 + 2 * Math.floor(Math.random() * 6000), '127.0.0.1')
    const free = await succeeds(once(server, 'listening'))
    const { port } = (server.address() ?? {}) as Partial<AddressInfo>
    server.close()
    if (free && (await claimed(port!))) return port!
  }
}

/** Claims a number for this process: a UDP socket has it, which is in nobody's way. */
async function claimed(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref()
  const bound = succeeds(once(socket, 'listening'))
  socket.bind({ address: '127.0.0.1', port, exclusive: true })
  if (await bound) return true
  socket.close()
  return false
}

function succeeds(happening: Promise<unknown>): Promise<boolean> {
  return happening.then(
    () => true,
    () => false
  )
}
