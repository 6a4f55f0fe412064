// The operator's listener: health, metrics and the admin API, apart from the one that clients use.
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { AdminParts } from './contract.ts'

/** A running admin listener. */
export class AdminServer {
  readonly url: string
  readonly #server: Server

  private constructor(server: Server) {
    const { address, port } = server.address() as AddressInfo
    this.#server = server
    this.url = `http://${address.includes(':') ? `[${address}]` : address}:${port}`
  }

  static async start({ settings: { host, port }, metrics, draining }: AdminParts): Promise<AdminServer> {
    const server = createServer((request, response) => {
      if (request.url === '/metrics') void metrics.expose().then(({ contentType, text }) => response.setHeader('content-type', contentType).end(text))
      else if (request.url === '/healthz') response.end('ok\n')
      else if (request.url === '/readyz') response.writeHead(draining() ? 503 : 200).end()
      else response.writeHead(404).end()
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host, port }, resolve)
    })
    return new AdminServer(server)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
