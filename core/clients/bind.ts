// Binds the port of a listener. When that fails, the error tells the operator why, and what to do.
import type { AddressInfo, Server } from 'node:net'

/**
 * Resolves with the bound address. `section`: the section of gateway.yaml that has the address.
 * @throws Error naming the address and the remedy
 */
export async function bind(
  server: Server,
  { host, port }: { host: string; port: number },
  section: 'listen' | 'admin'
): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => reject(bindError(error, host, port, section))
    server.once('error', onError)
    server.listen({ host, port }, () => {
      server.off('error', onError)
      resolve()
    })
  })
  return server.address() as AddressInfo
}

function bindError(error: NodeJS.ErrnoException, host: string, port: number, section: string): Error {
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const remedies: Record<string, string> = {
    EADDRINUSE: `${place} is in use by another process. Stop that process, or choose another ${section}.port.`,
    EACCES: `${place} may not be bound by this user. Choose a ${section}.port above 1023, or grant the right to bind it.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Choose another ${section}.host.`,
    ENOTFOUND: `${host} is not known as an address or name. Choose another ${section}.host.`
  }
  return new Error(remedies[error.code ?? ''] ?? `${place} cannot be listened on: ${error.message}`, { cause: error })
}
