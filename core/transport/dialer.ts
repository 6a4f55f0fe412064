// Opens connections: to an upstream, or through a proxy to it, in the time that the channel gives for it.
import type { Socket } from 'node:net'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Keeper } from './carrier.ts'
import { Connector } from './connector.ts'
import { ConnectTimeout } from './failure.ts'
import type { Dialed, Tunnel, Tunnels } from './tunnel.ts'

/** What connecting to a channel takes. */
export class Dialer {
  readonly connector: Connector
  /** Undefined: the way is direct. */
  readonly tunnels: Tunnels | undefined
  readonly timeout: number

  /** `tunnels`: through the channel's proxy. `protocols`: what is offered under TLS. */
  constructor(channel: Channel, tunnels: Tunnels | undefined, protocols?: readonly string[]) {
    this.connector = new Connector(channel, protocols)
    this.tunnels = tunnels
    this.timeout = channel.timeouts.connect
  }
}

/** One connection, from its beginning. */
export class Dial {
  readonly #dialer: Dialer
  readonly #keeper: Keeper
  readonly #timer: NodeJS.Timeout
  /** Undefined once it was told how it went. */
  #done: Dialed | undefined
  #tunnel: Tunnel | undefined
  #socket: Socket | undefined
  #open = false

  /** Begins. `keeper` hears of the connection's beginning and end, `done` whether there is one. */
  constructor(dialer: Dialer, keeper: Keeper, done: Dialed) {
    const { connector, tunnels, timeout } = dialer
    this.#dialer = dialer
    this.#keeper = keeper
    this.#done = done
    this.#timer = setTimeout(() => this.destroy(new ConnectTimeout(`no connection within ${timeout} ms`)), timeout)
    keeper.opening()
    if (!tunnels) this.#watch(connector.open())
    else if (connector.refusal) this.#closed(connector.refusal)
    else this.#tunnel = tunnels.open((error, socket) => (socket ? this.#through(socket) : this.#closed(error!)))
  }

  /** Gives up, or closes what was opened. */
  destroy(cause?: Error): void {
    this.#tunnel?.destroy()
    if (this.#socket) this.#socket.destroy(cause)
    else if (this.#done) this.#closed(cause ?? new Error('nobody waits for the connection any more'))
  }

  #through(tunnel: Socket): void {
    this.#tunnel = undefined
    const socket = this.#dialer.connector.over(tunnel)
    this.#watch(socket)
    if (socket === tunnel) this.#opened(socket)
  }

  #watch(socket: Socket): void {
    this.#socket = socket
    socket.once(this.#dialer.connector.event, () => this.#opened(socket))
    socket.on('error', (error) => this.#settle(error, null))
    socket.on('close', () => this.#closed(new Error('the connection was closed')))
  }

  #opened(socket: Socket): void {
    this.#open = true
    this.#keeper.opened()
    this.#settle(null, socket)
  }

  #closed(error: Error): void {
    this.#keeper.closed(this.#open)
    this.#settle(error, null)
  }

  #settle(error: Error | null, socket: Socket | null): void {
    clearTimeout(this.#timer)
    const done = this.#done
    this.#done = undefined
    done?.(error, socket)
  }
}
