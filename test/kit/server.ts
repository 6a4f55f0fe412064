// The server without an engine: the test itself answers the requests.
import type { Test } from 'tap'
import type { BodySource } from '../../core/clients/body-source.ts'
import type { Incoming } from '../../core/clients/client.ts'
import type { Logger } from '../../core/telling/log.ts'
import { HeaderLines } from '../../core/wire/response-head.ts'
import { Server } from '../../core/clients/server.ts'
import type { ServerOptions } from '../../core/clients/server.ts'

/** A running server. */
export interface Running {
  server: Server
  port: number
  url: string
  /** The messages that it logged. */
  logged: string[]
}

/** The options that a test may set. The others have values that suit tests. */
export interface RunOptions extends Partial<Omit<ServerOptions, 'limits' | 'handle'>> {
  limits?: Partial<ServerOptions['limits']>
}

/** Starts a server on a free loopback port; it is closed when the test is over. */
export async function runServer(
  t: Test,
  handle: (incoming: Incoming) => void,
  options: RunOptions = {}
): Promise<Running> {
  const logged: string[] = []
  const note = (message: string): void => void logged.push(message)
  const log: Logger = { debug: () => {}, info: note, warn: note, error: note, child: () => log }
  const server = new Server({
    listen: { host: '127.0.0.1', port: 0, tls: undefined },
    log,
    handle,
    ...options,
    limits: { clientHeader: 10_000, clientStall: 10_000, keepAlive: 10_000, connections: 1000, ...options.limits }
  })
  t.teardown(() => server.close())
  const { port, protocol } = await server.listen()
  return { server, port, url: `${protocol}://localhost:${port}`, logged }
}

/** Reads a whole body. `done` is not called when the connection breaks. */
export function gather(body: BodySource, done: (bytes: Buffer) => void): void {
  const chunks: Buffer[] = []
  body.receive({
    data: (chunk) => void chunks.push(Buffer.from(chunk)),
    end: () => done(Buffer.concat(chunks)),
    lost: () => {}
  })
}

/** Reads the first bytes of a body only. */
export function taste(body: BodySource): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const data = (chunk: Buffer): void => {
      body.abandon()
      resolve(chunk)
    }
    body.receive({
      data,
      end: () => reject(new Error('the body is empty')),
      lost: () => reject(new Error('the body is lost'))
    })
  })
}

/** Answers with the request that was received, once its body is complete. */
export function echo({ client, method, target, headers, httpVersion, remoteAddress, body }: Incoming): void {
  gather(body, (bytes) => {
    const seen = { method, target, headers, httpVersion, remoteAddress, body: bytes.toString() }
    client.reply(200, HeaderLines.of('content-type', 'application/json'), Buffer.from(JSON.stringify(seen)))
  })
}

/** A server whose requests the test answers. `next` gives them in the order in which they arrive. */
export async function heldServer(t: Test, options?: RunOptions): Promise<Running & { next(): Promise<Incoming> }> {
  const arrived: Incoming[] = []
  const waiting: ((incoming: Incoming) => void)[] = []
  const running = await runServer(
    t,
    (incoming) => {
      const resolve = waiting.shift()
      if (resolve) resolve(incoming)
      else arrived.push(incoming)
    },
    options
  )
  return {
    ...running,
    next: () =>
      arrived.length > 0 ? Promise.resolve(arrived.shift()!) : new Promise((resolve) => waiting.push(resolve))
  }
}
