// WebSockets to upstreams: the connection, the handshake, and the answer of an upstream that refuses it.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import WebSocket from 'ws'
import type { Channel } from '../catalogue/catalogue.ts'
import { FrameSocket, socketOptions } from '../wire/frame-socket.ts'
import type { Keeper } from './carrier.ts'
import { Dial, Dialer } from './dialer.ts'
import { AddressRefused, BadResponse, ConnectTimeout, describe, ProxyFailed } from './failure.ts'
import { targetOf } from './channel-head.ts'
import { maxHeadBytes } from './response-parser.ts'
import type { SocketRequest, UpstreamRefusal } from './transport.ts'

/** The most bytes of the body of a refusal that are read. */
const mostRefusalBytes = 64 * 1024

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
      const tunnels = channel.proxy && (await import('./tunnel.ts')).tunnelsOf(channel)
      this.#dialers.set(channel, (known = new Dialer(channel, tunnels)))
    }
    const dialer = known
    const { promise, resolve, reject } = Promise.withResolvers<FrameSocket | UpstreamRefusal>()
    const fail = (cause: Error): void => reject(describe(cause, false))
    const dial = new Dial(dialer, this, (error, stream) => {
      if (!stream) return fail(error!)
      this.#shake(channel, request, stream).then(resolve, fail)
    })
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
    { path, headers, maxMessage }: SocketRequest,
    stream: Socket
  ): Promise<FrameSocket | UpstreamRefusal> {
    const { promise, resolve, reject } = Promise.withResolvers<FrameSocket | UpstreamRefusal>()
    const { baseUrl, timeouts } = channel
    const timer = setTimeout(
      () => stream.destroy(new ConnectTimeout(`no answer to the handshake within ${timeouts.firstByte} ms`)),
      timeouts.firstByte
    )
    let socket: WebSocket
    try {
      socket = new WebSocket(new URL(targetOf(channel, path), baseUrl.origin), [], {
        ...socketOptions(maxMessage),
        createConnection: () => stream,
        maxHeaderSize: maxHeadBytes,
        headers: { 'user-agent': 'sluice', ...channel.headers, ...headers }
      })
    } catch (error) {
      clearTimeout(timer)
      stream.destroy()
      return Promise.reject(error)
    }
    socket.once('open', () => {
      clearTimeout(timer)
      socket.off('error', reject)
      resolve(new FrameSocket(socket, stream))
    })
    socket.once('unexpected-response', (_request, response) => {
      refusalOf(response)
        .then(resolve, reject)
        .finally(() => {
          clearTimeout(timer)
          stream.destroy()
        })
    })
    socket.on('error', (error) => {
      clearTimeout(timer)
      stream.destroy()
      reject(isTransports(stream.errored) ? stream.errored : 'code' in error ? error : new BadResponse(error.message))
    })
    return promise
  }
}

function isTransports(error: Error | null | undefined): error is Error {
  return error instanceof ConnectTimeout || error instanceof AddressRefused || error instanceof ProxyFailed
}

async function refusalOf(response: IncomingMessage): Promise<UpstreamRefusal> {
  const pieces: Buffer[] = []
  let size = 0
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      pieces.push(piece)
      size += piece.length
      if (size >= mostRefusalBytes) break
    }
  } catch {
    // The status is enough without the body.
  }
  return {
    status: response.statusCode!,
    headers: response.headers,
    body: Buffer.concat(pieces).subarray(0, mostRefusalBytes)
  }
}
