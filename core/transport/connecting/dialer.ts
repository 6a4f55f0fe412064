// Opens connections to an upstream, directly or through a proxy, within the connect timeout of the channel.
import type { OnReadOpts, Socket } from 'node:net'
import type { Channel } from '../../catalogue/catalogue.ts'
import type { Keeper } from '../carrier.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import { Connector } from './connector.ts'
import { ConnectTimeout } from '../failure.ts'
import type { Dialed, Tunnel, Tunnels } from './tunnel.ts'

/** The means to connect to one channel. */
export class Dialer {
  readonly connector: Connector
  /** Undefined when the connection is direct. */
  readonly tunnels: Tunnels | undefined
  readonly timeout: number

  /** `tunnels`: those through the channel's proxy. `protocols`: those to offer under TLS by ALPN. */
  constructor(channel: Channel, tunnels: Tunnels | undefined, protocols?: readonly string[]) {
    this.connector = new Connector(channel, protocols)
    this.tunnels = tunnels
    this.timeout = channel.timeouts.connect
  }
}

/** The opening of one connection. */
export class Dial {
  readonly #dialer: Dialer
  readonly #keeper: Keeper
  readonly #deadline: Deadline
  /** Undefined once it was called. */
  #done: Dialed | undefined
  #tunnel: Tunnel | undefined
  #socket: Socket | undefined
  #open = false

  /**
   * Begins to connect. `keeper` is told when the connection begins, opens and closes; `done` gets the socket or the
   * error. `onread`: how a direct connection is read.
   */
  constructor(dialer: Dialer, keeper: Keeper, done: Dialed, onread?: OnReadOpts) {
    const { connector, tunnels, timeout } = dialer
    this.#dialer = dialer
    this.#keeper = keeper
    this.#done = done
    this.#deadline = new Deadline(timeout, () => this.destroy(new ConnectTimeout(`no connection within ${timeout} ms`)))
    keeper.opening()
    if (!tunnels) this.#watch(connector.open(onread))
    else if (connector.refusal) this.#closed(connector.refusal)
    else this.#tunnel = tunnels.open((error, socket) => (socket ? this.#through(socket) : this.#closed(error!)))
  }

  /** Gives up connecting, or closes the connection. */
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
    this.#deadline.clear()
    const done = this.#done
    this.#done = undefined
    done?.(error, socket)
  }
}
