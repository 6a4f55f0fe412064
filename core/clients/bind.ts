// Binds the port of a listener. When that fails, the error tells the operator why, and what to do.
import type { AddressInfo, Server } from 'node:net'

/** A socket that is bound already: its descriptor, or the handle of Node that has it. */
export interface BoundSocket {
  readonly fd: number
}

/**
 * The connections that may wait to be accepted. The kernel takes no more than its own bound (net.core.somaxconn), which
 * is 4096 by default; Node's default of 511 is filled by a tenth of a second of new connections.
 */
export const backlog = 4096

/**
 * Listens. Resolves with the address. `section`: the section of gateway.yaml that has the address. `bound`: a socket
 * that is bound already, whose address counts instead. `together`: other threads of the gateway listen on the same
 * port.
 * @throws Error naming the address and the remedy
 */
export async function bind(
  server: Server,
  { host, port }: { host: string; port: number },
  section: 'listen' | 'admin',
  bound?: BoundSocket,
  together = false
): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void =>
      reject(bound ? passedError(bound, section, error.message) : bindError(error, host, port, section))
    server.once('error', onError)
    const listening = (): void => {
      server.off('error', onError)
      resolve()
    }
    // Of a socket that is bound, Node takes this bound as an argument alone, and would lower it to its default.
    if (bound) server.listen(bound, backlog, listening)
    else server.listen({ host, port, backlog, reusePort: together }, listening)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') {
    server.close()
    throw passedError(bound!, section, 'it has no address with a port')
  }
  return address
}

/** Why a socket that was passed cannot be listened on, with the remedy. */
export function passedError({ fd }: BoundSocket, section: string, why: string): Error {
  return new Error(
    `descriptor ${fd}, which LISTEN_FDS passes for ${section}, is no TCP socket that can listen (${why}): see to what starts the gateway, as ListenStream of its socket unit, or pass none`
  )
}

/**
 * The file descriptor of a listening socket, to be passed to another process. Node has it in a handle that is not
 * documented.
 */
export function descriptorOf(server: Server): number {
  return (server as Server & { _handle: { fd: number } })._handle.fd
}

function bindError(error: NodeJS.ErrnoException, host: string, port: number, section: string): Error {
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const remedies: Record<string, string> = {
    EADDRINUSE: `${place} is in use by another process. Stop that process, or choose another ${section}.port.`,
    EACCES: `${place} may not be bound by this user. Choose a ${section}.port above 1023, or grant the right to bind it.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Choose another ${section}.host.`,
    ENOTFOUND: `${host} is not known as an address or name. Choose another ${section}.host.`,
    ENOTSUP: `${place} cannot be listened on by several threads, as this system does not spread connections over them. Set workers to 1.`
  }
  return new Error(remedies[error.code ?? ''] ?? `${place} cannot be listened on: ${error.message}`, { cause: error })
}
