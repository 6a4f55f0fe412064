// All transports as one: each channel uses the transport that its configuration names; WebSockets have their own.
import type { Channel } from '../catalogue/catalogue.ts'
import { Http1Transport } from './http1-transport.ts'
import { Sockets } from './sockets.ts'
import type { FrameSocket } from '../wire/frame-socket.ts'
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
    return (channel.transport === 'own' ? this.#own : this.#undici!).send(channel, request, sink)
  }

  connect(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal> {
    return this.#sockets.connect(channel, request)
  }

  async use(channels: Iterable<Channel>): Promise<() => void> {
    const all = [...channels]
    const own = await this.#own.use(all.filter(({ transport }) => transport === 'own'))
    const others = all.filter(({ transport }) => transport === 'undici')
    if (others.length === 0) return own
    if (!this.#undici) {
      const { UndiciTransport } = await import('./undici-transport.ts')
      this.#undici = new UndiciTransport()
    }
    const undici = await this.#undici.use(others)
    return () => {
      own()
      undici()
    }
  }

  get connections(): number {
    return this.#own.connections + this.#sockets.open + (this.#undici?.connections ?? 0)
  }

  async close(): Promise<void> {
    await Promise.all([this.#own.close(), this.#undici?.close()])
  }
}
