// An HTTP proxy for CONNECT on real sockets. It connects, demands credentials, refuses, sends nonsense or stays silent.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'
import type { Certificate } from './certificate.ts'

/** How a proxy behaves. */
export interface ProxyOptions {
  /** When set, clients connect to the proxy with TLS. */
  certificate?: Certificate
  /** `user:password`. A client without them gets 407. */
  credentials?: string
  /** Replaces the connecting. */
  answer?: (socket: Socket) => void
}

/** A running proxy, and the requests it got. */
export class Proxy {
  readonly url: URL
  readonly requests: { authority: string; headers: IncomingMessage['headers'] }[] = []
  /** The number of open tunnels, and the bytes that all tunnels have carried. */
  open = 0
  bytes = 0

  private constructor(url: URL) {
    this.url = url
  }

  /**
   * Starts a proxy on a free port. It is closed with all its tunnels when the test is over. Whatever host is asked for,
   * it connects to this machine.
   */
  static async start(t: Test, { certificate, credentials, answer }: ProxyOptions = {}): Promise<Proxy> {
    const server = certificate ? createTlsServer(certificate.pem) : createServer()
    const sockets = new Set<Socket>()
    const keep = (socket: Socket): Socket => {
      sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
      return socket
    }
    server.on('connection', keep).on('tlsClientError', () => {})
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const proxy = new Proxy(
      new URL(`${certificate ? 'https://localhost' : 'http://127.0.0.1'}:${(server.address() as AddressInfo).port}`)
    )
    const wanted = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`
    server.on('connect', ({ url: authority = '', headers }: IncomingMessage, socket: Socket, first: Buffer) => {
      proxy.requests.push({ authority, headers })
      keep(socket)
      if (answer) return answer(socket)
      if (wanted !== undefined && headers['proxy-authorization'] !== wanted) {
        return void socket.end(
          'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="proxy"\r\ncontent-length: 0\r\n\r\n'
        )
      }
      const upstream = keep(connect(Number(authority.slice(authority.lastIndexOf(':') + 1)), '127.0.0.1'))
      let isOpen = false
      upstream.once('connect', () => {
        isOpen = true
        proxy.open++
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
        upstream.write(first)
        socket.pipe(upstream).pipe(socket)
        upstream.on('data', (data: Buffer) => (proxy.bytes += data.length))
      })
      upstream.once('close', () => socket.destroy())
      socket.once('close', () => {
        if (isOpen) proxy.open--
        upstream.destroy()
      })
    })
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return proxy
  }
}
