// All transports as one: each channel uses the transport that its configuration names; WebSockets have their own.
import type { Channel } from '../catalogue/catalogue.ts'
import type { Secret } from '../credentials/grant.ts'
import { authorizationOf, authorized, remedyFor } from './authorized/authorization.ts'
import { AuthorizedCall } from './authorized/authorized-call.ts'
import { Http1Transport } from './http1/transport.ts'
import { Sockets } from './websocket/sockets.ts'
import { FrameSocket } from '../wire/frame-socket.ts'
import type {
  HttpTransport,
  SocketRequest,
  Transport,
  UpstreamCall,
  UpstreamRefusal,
  UpstreamRequest,
  UpstreamSink
} from './transport.ts'

/**
 * Undici is loaded with the first channel that needs it, which takes about 50 ms. A gateway without such a channel
 * never loads it.
 */
export class Transports implements Transport {
  readonly #own = new Http1Transport()
  #undici: HttpTransport | undefined
  readonly #sockets = new Sockets()

  /**
   * Sends a request.
   * @throws Error for a channel that was not announced with `use`
   */
  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    if (channel.living !== undefined) return new AuthorizedCall(this.#dispatch, channel, request, sink)
    return (channel.transport === 'own' ? this.#own : this.#undici!).send(channel, request, sink)
  }

  readonly #dispatch: HttpTransport['send'] = (channel, request, sink) =>
    (channel.transport === 'own' ? this.#own : this.#undici!).send(channel, request, sink)

  connect(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal> {
    return channel.living === undefined ? this.#sockets.connect(channel, request) : this.#shake(channel, request)
  }

  async use(channels: Iterable<Channel>): Promise<() => void> {
    const all = [...channels]
    const own = await this.#own.use(all.filter(({ transport }) => transport === 'own'))
    const others = all.filter(({ transport }) => transport === 'undici')
    if (others.length === 0) return own
    if (!this.#undici) {
      const { UndiciTransport } = await import('./undici/transport.ts')
      this.#undici = new UndiciTransport()
    }
    const undici = await this.#undici.use(others)
    return () => {
      own()
      undici()
    }
  }

  /** Opens a WebSocket of a channel whose credential changes; once more with a fresh one when that is refused. */
  async #shake(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal> {
    const authorization = authorizationOf(channel)
    const { credential } = authorization
    const flat = Object.entries(request.headers).flat()
    const shake = async (secret: Secret): Promise<FrameSocket | UpstreamRefusal> => {
      const get = { method: 'GET', path: request.path, headers: flat, body: [] } as const
      const { headers } = await authorized(channel, authorization, secret, get)
      const named = Object.fromEntries(
        Array.from({ length: headers.length / 2 }, (_, i) => headers.slice(i * 2, i * 2 + 2))
      )
      return this.#sockets.connect(channel, { ...request, headers: named })
    }
    const secret = await credential.wait()
    const answer = await shake(secret)
    if (answer instanceof FrameSocket) return answer
    const remedy = remedyFor(authorization, secret, answer.status, answer.headers)
    const next = remedy === 'renew' ? await credential.instead(secret) : remedy && credential.current
    return next === undefined ? answer : shake(next)
  }

  get connections(): number {
    return this.#own.connections + this.#sockets.open + (this.#undici?.connections ?? 0)
  }

  async close(): Promise<void> {
    await Promise.all([this.#own.close(), this.#undici?.close()])
  }
}
