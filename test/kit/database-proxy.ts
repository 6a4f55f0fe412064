// A TCP proxy, before PostgreSQL in most tests, that loses answers, stands still, or cuts connections, when told to.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Test } from 'tap'

/** A running proxy. */
export class DatabaseProxy {
  /** How many answers were lost. */
  lost = 0
  /** Whether an answer is kept until {@link DatabaseProxy.release}. Called with what was sent. */
  keeps: (sent: Buffer) => boolean = () => false
  /** Whether the answer to a statement is lost: it runs, and its connection is cut. Called with what was sent. */
  loses: (sent: Buffer) => boolean = () => false
  /** What is told in place of an answer. */
  changes: (answer: Buffer) => Buffer = (answer) => answer
  readonly #server: Server
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** The answers that are kept, by the connection that they are for. */
  readonly #kept = new Map<Socket, Buffer[]>()
  #standing = false
  #socket: string | number

  private constructor(socket: string | number) {
    this.#socket = socket
    this.#server = createServer((client) => {
      const upstream = connect(this.#socket as string)
      const pair = [client, upstream] as const
      this.#pairs.add(pair)
      let losing = false
      for (const one of pair)
        one
          .on('error', () => {})
          .on('close', () => {
            this.#pairs.delete(pair)
            this.#kept.delete(client)
            for (const other of pair) other.destroy()
          })
      client.on('data', (data: Buffer) => {
        if (this.loses(data)) {
          losing = true
          this.lost++
        }
        if (this.keeps(data) && !this.#kept.has(client)) this.#kept.set(client, [])
        upstream.write(data)
      })
      upstream.on('data', (data: Buffer) => {
        const kept = this.#kept.get(client)
        if (losing) client.destroy()
        else if (kept) kept.push(data)
        else client.write(this.changes(data))
      })
      if (this.#standing) this.#pause(pair)
    })
  }

  /** Starts a proxy before the socket of a server, or before a port. It ends with the test. */
  static async start(t: Pick<Test, 'teardown'>, socket: string | number): Promise<DatabaseProxy> {
    const proxy = new DatabaseProxy(socket)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    t.teardown(() => {
      proxy.cut()
      proxy.#server.close()
    })
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The URL of a database behind it. */
  url(direct: string): string {
    return `postgres://sluice@127.0.0.1:${this.port}${new URL(direct).pathname}`
  }

  /** Carries nothing any more, also on new connections, until it goes on. */
  stand(): void {
    this.#standing = true
    for (const pair of this.#pairs) this.#pause(pair)
  }

  /** Carries everything again. */
  goOn(): void {
    this.#standing = false
    for (const pair of this.#pairs) for (const one of pair) one.resume()
  }

  /** Carries the answers that were kept, and keeps none any more. */
  release(): void {
    this.keeps = () => false
    for (const [client, kept] of this.#kept) for (const data of kept) client.write(data)
    this.#kept.clear()
  }

  /** Leads new connections to the socket of another server, and cuts all that there are. */
  lead(socket: string | number): void {
    this.#socket = socket
    this.cut()
  }

  /** Cuts all connections. */
  cut(): void {
    for (const pair of this.#pairs) for (const one of pair) one.destroy()
  }

  #pause(pair: readonly [Socket, Socket]): void {
    for (const one of pair) one.pause()
  }
}
