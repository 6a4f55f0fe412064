// WebSockets to upstreams: the connection, the handshake, and the answer of an upstream that refuses it.
import type { Socket } from 'node:net'
import type { Channel } from '../../catalogue/catalogue.ts'
import type { FrameSocket } from '../../wire/frame-socket.ts'
import type { Keeper } from '../carrier.ts'
import { Dial, Dialer } from '../connecting/dialer.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import { ConnectTimeout, describe } from '../failure.ts'
import { Handshake, Reading } from './handshake.ts'
import type { SocketRequest, UpstreamRefusal } from '../transport.ts'
import type { Dialed } from '../connecting/tunnel.ts'

/** Opens one connection per session. None is kept for another session. */
export class Sockets implements Keeper {
  /** Established connections. */
  open = 0
  readonly #dialers = new WeakMap<Channel, Dialer>()

  /**
   * Opens a WebSocket, or returns the upstream's refusal of the handshake.
   * @throws GatewayError when there is no connection or no valid answer within the channel's time limits
   */
  async connect(channel: Channel, request: SocketRequest): Promise<FrameSocket | UpstreamRefusal> {
    let known = this.#dialers.get(channel)
    if (!known) {
      // Only undici can speak to a proxy, so it is loaded when a channel has one.
      const tunnels = channel.proxy && (await import('../connecting/tunnel.ts')).tunnelsOf(channel)
      this.#dialers.set(channel, (known = new Dialer(channel, tunnels)))
    }
    const dialer = known
    const { promise, resolve, reject } = Promise.withResolvers<FrameSocket | UpstreamRefusal>()
    const fail = (cause: Error): void => reject(describe(cause, false))
    const reading = dialer.tunnels ? undefined : new Reading()
    const done: Dialed = (error, stream) => {
      if (!stream) return fail(error!)
      this.#shake(channel, request, stream, reading).then(resolve, fail)
    }
    const dial = new Dial(dialer, this, done, reading?.onread)
    const giveUp = (): void => dial.destroy()
    request.signal.addEventListener('abort', giveUp, { once: true })
    if (request.signal.aborted) giveUp()
    try {
      return await promise
    } finally {
      request.signal.removeEventListener('abort', giveUp)
    }
  }

  opening(): void {}

  opened(): void {
    this.open++
  }

  closed(wasOpen: boolean): void {
    if (wasOpen) this.open--
  }

  released(): void {}

  #shake(
    channel: Channel,
    request: SocketRequest,
    stream: Socket,
    reading: Reading | undefined
  ): Promise<FrameSocket | UpstreamRefusal> {
    const { firstByte } = channel.timeouts
    const deadline = new Deadline(firstByte, () =>
      stream.destroy(new ConnectTimeout(`no answer to the handshake within ${firstByte} ms`))
    )
    return new Handshake(channel, request, stream, reading).answer.finally(() => deadline.clear())
  }
}
