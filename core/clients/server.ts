// The server: takes requests from the port, refuses invalid ones, and hands the others to the engine.
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { Allowance } from '../allowance.ts'
import type { BoundSocket } from './bind.ts'
import { noBody } from './body-source.ts'
import { Http2Body } from './http2/body.ts'
import { Http2Client } from './http2/client.ts'
import { Http2Connection } from './http2/connection.ts'
import type { Client, Incoming } from './client.ts'
import { Cors } from './cors.ts'
import { asGatewayError, reasons } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import { Forwarder } from './forwarder.ts'
import { Http1Connection } from './http1/connection.ts'
import type { Http1Front } from './http1/connection.ts'
import { Listener } from './listener.ts'
import type { Address } from './listener.ts'
import type { Inlet } from './inlet.ts'
import type { Logger } from '../telling/log.ts'
import { refuse } from './refusal.ts'
import { checkHttp2Head } from './request-head.ts'
import type { Http2Head } from './request-head.ts'
import type { Identity } from '../catalogue/catalogue.ts'
import type { Limits, Settings } from '../catalogue/settings.ts'
import { Watchdog } from '../watchdog/watchdog.ts'

export type { Address } from './listener.ts'

/** Far more than one client opens, and enough for a proxy that carries many clients in one session. */
const defaultStreamsPerSecond = 10_000
/** Milliseconds between telling the engine to end what is left and closing the connections. */
const graceMs = 1000
const defaultFirstRequest = 1000

/** What a server needs. */
export interface ServerOptions {
  listen: Settings['listen']
  limits: Pick<Limits, 'clientHeader' | 'clientStall' | 'keepAlive' | 'connections'>
  /** New streams of one HTTP/2 session in a second; those above are refused unseen. Default 10,000. */
  streamsPerSecond?: number | undefined
  /** Milliseconds that a connection without a request has for its first one when the server stops. Default 1000. */
  firstRequest?: number | undefined
  log: Logger
  /** How many connections all threads may have that listen on the port; absent: this one alone does. */
  together?: Allowance | undefined
  /** Called for every valid request. Must answer through `incoming.client`. */
  handle(incoming: Incoming): void
  /** Called once when `drain` has waited long enough, to end the exchanges under way. */
  onDrainTimeout?: (() => void) | undefined
}

/** Figures for metrics, computed on each read. */
export interface ServerFigures {
  /**
   * Open connections. `undecided` ones have not sent enough to tell their version of HTTP, or are in the TLS handshake.
   */
  connections: { http1: number; http2: number; undecided: number }
  /** Requests that were taken up and are not answered yet. */
  active: number
  /** Connections since the start that were closed at once because there were too many. */
  refusedConnections: number
  /** Requests since the start that the server refused by itself, before the engine saw them. */
  refusedRequests: number
}

/** The server of one data listener. */
export class Server implements Http1Front {
  readonly clientHeader: number
  readonly clientStall: number
  readonly keepAlive: number
  readonly firstRequest: number
  draining = false
  forwarder: Forwarder | undefined = undefined
  readonly #options: ServerOptions
  readonly #listener: Listener
  /** Undefined when CORS is not configured. */
  readonly #cors: Cors | undefined
  /** Enforces the time limits of connections, but for those of HTTP/2. */
  readonly #watchdog: Watchdog
  readonly #http1 = new Set<Http1Connection>()
  readonly #http2 = new Set<Http2Connection>()
  #active = 0
  #refusedRequests = 0
  #drained: Promise<{ cut: number }> | undefined
  /** Whether connections that are idle are to be closed. */
  #leaving = false
  /** Resolves when the processes before are gone. */
  #gone = Promise.resolve()
  #hurried = false
  #hurry: () => void = () => {}
  #onQuiet: () => void = () => {}

  constructor(options: ServerOptions) {
    this.#options = options
    this.#cors = options.listen.cors && new Cors(options.listen.cors)
    const { clientHeader, clientStall, keepAlive } = options.limits
    this.clientHeader = clientHeader
    this.clientStall = clientStall
    this.keepAlive = keepAlive
    this.firstRequest = options.firstRequest ?? defaultFirstRequest
    this.#watchdog = new Watchdog(Math.min(500, Math.max(20, Math.min(clientHeader, keepAlive) / 4)))
    this.#listener = new Listener({
      ...options,
      watchdog: this.#watchdog,
      onHttp1: (inlet, remoteAddress, first, single) => this.#openHttp1(inlet, remoteAddress, first, single),
      onHttp2: (socket, remoteAddress, isInner) => this.#openHttp2(socket, remoteAddress, isInner)
    })
  }

  /**
   * Binds the port, or takes sockets that are bound, and begins to serve.
   * @throws Error with a message for the operator when the port cannot be bound
   */
  listen(sockets?: readonly BoundSocket[]): Promise<Address> {
    return this.#listener.listen(sockets)
  }

  /**
   * Accepts connections on another socket of the port too, until the function is called that is returned.
   * @throws Error when that is none to listen on
   */
  accept(socket: BoundSocket): Promise<() => void> {
    return this.#listener.accept(socket)
  }

  /** Sets the certificate for new connections; open ones keep theirs. Only for a server with TLS. */
  certify(identity: Identity): void {
    this.#listener.certify(identity)
  }

  /** The file descriptors of the listening sockets. */
  get descriptors(): readonly number[] {
    return this.#listener.descriptors
  }

  get figures(): ServerFigures {
    const { connections, refused } = this.#listener
    const [http1, http2] = [this.#http1.size, this.#http2.size]
    return {
      connections: { http1, http2, undecided: connections - http1 - http2 },
      active: this.#active,
      refusedConnections: refused,
      refusedRequests: this.#refusedRequests
    }
  }

  /**
   * Stops in good order: accepts the connections that wait and no more, and lets answers under way finish. What still
   * comes on open connections is handed on, and its answer is the last there. Connections that are idle when
   * the last answer is over are closed; those without a request until then have a second for it. After `timeoutMs`,
   * `onDrainTimeout` is called, and a second later all connections that are still open are closed; answers of another
   * process have as much time again before that. `cut`: how many answers had not finished by themselves. Calling it
   * again with 0 ends the waiting. With `patient`, idle connections are closed only after `timeoutMs`.
   */
  drain(timeoutMs: number, patient = false): Promise<{ cut: number }> {
    if (timeoutMs === 0) {
      this.#hurried = true
      this.#hurry()
    }
    return (this.#drained ??= this.#drain(timeoutMs, patient))
  }

  /**
   * Accepts no more connections, as another process does so in its place. From now on new requests on open connections
   * go there; `path` leads to its socket for them.
   */
  leaveTo(path: string): void {
    this.forwarder = new Forwarder(path)
    this.#listener.stop()
  }

  /**
   * Takes connections from the processes before, on a socket in the file system, until `gone`. See {@link Forwarder}.
   */
  takeFrom(path: string, gone: Promise<void>): Promise<void> {
    this.#gone = gone
    return this.#listener.takeFrom(path)
  }

  /** Stops at once: closes the port and every connection, and cuts answers under way. */
  async close(): Promise<void> {
    this.#listener.stop()
    for (const connection of this.#http1) connection.destroy()
    for (const connection of this.#http2) connection.destroy()
    await this.#listener.destroy()
  }

  /** Called by the clients. */
  began(): void {
    this.#active++
  }

  /** Called by the clients. */
  ended(): void {
    if (--this.#active === 0) this.#onQuiet()
  }

  async #drain(timeoutMs: number, patient: boolean): Promise<{ cut: number }> {
    this.draining = true
    for (const connection of this.#http2) {
      if (patient) connection.leave()
      else connection.drain()
    }
    const ended = this.#listener
      .lastCall()
      .then(() => (patient ? undefined : this.#quiet().then(() => this.#leaveIdle())))
      .then(() => this.#gone)
      .then(() => this.#listener.emptied())
    let cut = 0
    if (!(await Promise.race([ended, this.#late(timeoutMs)]))) {
      const passed = this.forwarder
      cut = this.#active - (passed?.open ?? 0)
      this.#options.onDrainTimeout?.()
      this.#leaveIdle()
      if (passed) {
        await Promise.race([passed.idle(), this.#late(timeoutMs)])
        cut += passed.open
      }
      await this.#listener.emptied(graceMs)
    }
    this.#hurry()
    await this.close()
    return { cut }
  }

  /** Resolves after the time, or at once when somebody is in a hurry. */
  #late(ms: number): Promise<false> {
    const { promise, resolve } = Promise.withResolvers<false>()
    const timer = setTimeout(resolve, this.#hurried ? 0 : ms, false)
    const hurry = (): void => {
      clearTimeout(timer)
      resolve(false)
    }
    this.#hurry = hurry
    return promise
  }

  /** Closes the connections that are idle, and the others when they become so. */
  #leaveIdle(): void {
    this.#leaving = true
    this.#listener.leave(this.firstRequest)
    for (const connection of this.#http1) connection.leave()
    for (const connection of this.#http2) connection.drain()
  }

  /** Resolves when no answer is under way. */
  #quiet(): Promise<void> {
    return this.#active === 0 ? Promise.resolve() : new Promise((resolve) => (this.#onQuiet = resolve))
  }

  #openHttp1(inlet: Inlet, remoteAddress: string, first: Buffer | undefined, single: boolean): void {
    const connection = new Http1Connection(inlet, remoteAddress, this, single)
    this.#http1.add(connection)
    this.#watchdog.add(connection)
    if (first) connection.input(first)
    if (this.#leaving) connection.leave()
  }

  #openHttp2(socket: Socket, remoteAddress: string, isInner: boolean): void {
    const { http2 } = this.#listener
    const { limits, streamsPerSecond = defaultStreamsPerSecond } = this.#options
    const onSession = (session: ServerHttp2Session): void => {
      const connection = new Http2Connection(
        session,
        socket,
        remoteAddress,
        { idle: isInner ? 0 : limits.keepAlive, streamsPerSecond },
        this,
        (...request) => this.#onStream(...request)
      )
      this.#http2.add(connection)
      if (this.#leaving) connection.drain()
      socket.once('close', () => this.#http2.delete(connection))
    }
    // The session is made before emit() returns.
    http2.once('session', onSession).emit('connection', socket)
    http2.off('session', onSession)
  }

  #onStream(connection: Http2Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: string[]): void {
    if (this.forwarder) {
      connection.began()
      const over = (): void => connection.ended()
      return this.forwarder.stream(connection.socket, connection.remoteAddress, stream, headers, over)
    }
    const client = new Http2Client(connection, stream, headers[':method'] === 'HEAD')
    let head: Http2Head
    try {
      head = checkHttp2Head(headers, raw)
    } catch (error) {
      return this.#refuse(client, error)
    }
    const { remoteAddress } = connection
    const { target, socket } = head
    const common = { target, headers: head.headers, remoteAddress, httpVersion: '2.0', client } as const
    if (socket) this.serve({ ...common, method: 'GET', body: noBody, socket: client.offer(socket) })
    else this.serve({ ...common, method: headers[':method']!, body: new Http2Body(stream) })
  }

  /** Called by HTTP/1.x connections. */
  serve(incoming: Incoming): void {
    try {
      if (this.#cors?.answers(incoming)) return
      this.#options.handle(incoming)
    } catch (error) {
      this.#refuse(incoming.client, error)
    }
  }

  /** Called by HTTP/1.x connections. */
  closed(connection: Http1Connection): void {
    this.#http1.delete(connection)
    this.#watchdog.delete(connection)
  }

  /** Called by HTTP/1.x connections. */
  refused(): void {
    this.#refusedRequests++
  }

  #refuse(client: Client, error: unknown): void {
    const refusal = this.#counted(error)
    if (client.headSent) client.cut()
    else refuse(client, refusal)
  }

  #counted(error: unknown): GatewayError {
    const refusal = asGatewayError(error)
    if (refusal.code === 'internal_error')
      this.#options.log.error('a request could not be handled', { error: reasons(refusal.cause) })
    this.#refusedRequests++
    return refusal
  }
}
