// Connections through an HTTP proxy with CONNECT (RFC 9110 §9.3.6), which undici sends.
import type { Socket } from 'node:net'
import type { Channel, ChannelProxy } from '../../catalogue/catalogue.ts'
import { Connector } from './connector.ts'
import { ProxyFailed } from '../failure.ts'
import { Client } from '../undici/parts.ts'

/** Called once with the result: exactly one of the two is null. */
export type Dialed = (error: Error | null, socket: Socket | null) => void

/** A connection through a proxy that is being opened. */
export interface Tunnel {
  /** Gives up. The callback is not called any more. */
  destroy(): void
}

/** The connections through a channel's proxy; undefined when the channel has none. */
export function tunnelsOf(channel: Channel): Tunnels | undefined {
  return channel.proxy && new Tunnels(channel.proxy, new Connector(channel).authority)
}

/** Opens connections through one proxy to one upstream. */
export class Tunnels {
  readonly #connector: Connector
  readonly #request: { origin: URL; path: string; method: string; headers: string[] }

  /**
   * `authority`: the host and port to connect to. The proxy itself may have a private address, because the operator
   * named it.
   */
  constructor({ url, authorization }: ChannelProxy, authority: string) {
    this.#connector = new Connector({ baseUrl: url, private: true, tls: undefined })
    const headers = ['host', authority, 'user-agent', 'sluice']
    if (authorization !== undefined) headers.push('proxy-authorization', authorization)
    this.#request = { origin: url, path: authority, method: 'CONNECT', headers }
  }

  open(done: Dialed): Tunnel {
    const socket = this.#connector.open()
    let settled = false
    const settle = (error: Error | null, tunnel: Socket | null): void => {
      if (settled) return
      settled = true
      if (!tunnel) socket.destroy()
      done(error, tunnel)
    }
    const failed = (cause: Error): void =>
      settle(new ProxyFailed('the proxy could not be reached or closed the connection', { cause }), null)
    // Errors of connecting must be reported from here, because undici retries after some of them.
    socket.on('error', failed)
    socket.on('close', () => failed(new Error('the connection was closed')))
    const client = new Client(this.#request.origin, {
      headersTimeout: 0,
      connect: (_options, connected) => void socket.once(this.#connector.event, () => connected(null, socket))
    })
    client.dispatch(this.#request, {
      onRequestStart() {},
      onRequestUpgrade(_controller, status, _headers, tunnel) {
        if (status < 200 || status > 299) settle(new ProxyFailed(`the proxy refused with ${status}`), null)
        else if (tunnel.readableLength > 0) settle(new ProxyFailed('bytes came before anything was asked for'), null)
        else settle(null, socket)
      },
      onResponseError: (_controller, error) => failed(error)
    })
    return {
      destroy() {
        settled = true
        socket.destroy()
      }
    }
  }
}
