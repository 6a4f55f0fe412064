// A proxy before a PostgreSQL server, with TLS where it is asked to, that loses the answer to a statement with the
// connection.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import type { Certificate } from './certificate.ts'
import type { Postgres } from './postgres.ts'

/** A running proxy. */
export class PostgresProxy {
  readonly #port: number
  #statement: string | undefined
  /** How many answers were lost. */
  lost = 0

  private constructor(port: number) {
    this.#port = port
  }

  /**
   * Starts a proxy on a free port, which has TLS with a certificate, and else none. It is closed with all connections
   * when the test is over.
   */
  static async start(
    t: Test,
    { socket: path }: Pick<Postgres, 'socket'>,
    certificate?: Certificate
  ): Promise<PostgresProxy> {
    const server = createServer()
    const sockets = new Set<Socket>()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const proxy = new PostgresProxy((server.address() as AddressInfo).port)
    server.on('connection', async (socket) => {
      const client = certificate
        ? await encrypted(
            socket.on('error', () => {}),
            certificate
          )
        : socket
      const upstream = connect(path)
      let cut = false
      for (const socket of [client, upstream])
        sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
      client.on('data', (data: Buffer) => {
        if (proxy.#statement !== undefined && data.includes(proxy.#statement)) {
          proxy.#statement = undefined
          cut = true
        }
        upstream.write(data)
      })
      upstream.on('data', (data: Buffer) => {
        if (!cut) return void client.write(data)
        proxy.lost++
        client.destroy()
      })
      client.on('close', () => upstream.destroy())
      upstream.on('close', () => client.destroy())
    })
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return proxy
  }

  /** The URL by way of this proxy of a database that a URL of the server names. */
  url(direct: string): string {
    return `postgres://sluice@127.0.0.1:${this.#port}${new URL(direct).pathname}`
  }

  /** Loses the answer to the next statement that contains a text: the server has done it when the connection is cut. */
  loseAnswerTo(statement: string): void {
    this.#statement = statement
  }
}

/** Agrees to the request for TLS that a client begins with. */
async function encrypted(socket: Socket, { pem }: Certificate): Promise<Socket> {
  await once(socket, 'data')
  socket.write('S')
  return new TLSSocket(socket, { isServer: true, ...pem })
}
