// An upstream on node:http2. A test decides what it does with each stream.
import { once } from 'node:events'
import { createSecureServer, createServer } from 'node:http2'
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream, ServerOptions } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'
import type { Certificate } from './certificate.ts'

/** A request: its head and its stream. */
export interface StreamRequest {
  headers: IncomingHttpHeaders
  stream: ServerHttp2Stream
  session: ServerHttp2Session
  /** Reads the whole body. */
  body(): Promise<Buffer>
}

/** The function that answers requests. */
export type Answer = (request: StreamRequest) => unknown

/** An HTTP/2 upstream, in clear text unless it has a certificate. It keeps everything that it receives. */
export class Http2Upstream {
  readonly requests: StreamRequest[] = []
  readonly sessions: ServerHttp2Session[] = []
  readonly sockets = new Set<Socket>()
  readonly url: URL
  answer: Answer = ({ stream }) => {
    stream.respond({ ':status': 200, 'content-type': 'text/plain' })
    stream.end('hello')
  }

  private constructor(server: Http2Server, secure: boolean) {
    const { port } = server.address() as AddressInfo
    this.url = new URL(`${secure ? 'https://localhost' : 'http://127.0.0.1'}:${port}/v1`)
    server.on('session', (session) => this.sessions.push(session.on('error', () => {})))
    server.on('stream', (stream, headers) => {
      const request: StreamRequest = {
        headers,
        stream: stream.on('error', () => {}),
        session: stream.session as ServerHttp2Session,
        async body() {
          const chunks: Buffer[] = []
          for await (const chunk of stream) chunks.push(chunk as Buffer)
          return Buffer.concat(chunks)
        }
      }
      this.requests.push(request)
      void this.answer(request)
    })
  }

  /** Starts an upstream on a free port. It is closed when the test is over. */
  static async start(
    t: Test,
    { certificate, ...options }: ServerOptions & { certificate?: Certificate } = {}
  ): Promise<Http2Upstream> {
    const server = certificate ? createSecureServer({ ...certificate.pem, ...options }) : createServer(options)
    const sockets = new Set<Socket>()
    server.on('connection', (socket: Socket) =>
      sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
    )
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const upstream = new Http2Upstream(server, certificate !== undefined)
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return Object.assign(upstream, { sockets })
  }

  /** The n-th request, counted from 0, once it has arrived. */
  async request(n: number): Promise<StreamRequest> {
    while (this.requests.length <= n) await new Promise((resolve) => setTimeout(resolve, 2))
    return this.requests[n]!
  }
}
