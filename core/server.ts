// The server: takes requests from the port, refuses what is not a sound one, and hands the rest to the engine.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { Http1Client, Http1Connection } from './client-http1.ts'
import { Http2Client, Http2Connection } from './client-http2.ts'
import type { Client, Front, Incoming } from './client.ts'
import { asGatewayError, GatewayError } from './errors.ts'
import { Listener } from './listener.ts'
import type { Address } from './listener.ts'
import type { Logger } from './log.ts'
import { refuse, refuseUpgrade } from './refusal.ts'
import { checkHttp1Head, checkHttp2Head, invalid, maxHeadBytes, noTunnel } from './request-head.ts'
import type { RequestHead } from './request-head.ts'
import type { Limits, Settings } from './settings.ts'

export type { Address } from './listener.ts'

/** Requests that may wait on one connection for the answers before theirs. */
const maxPipelined = 100
/** Far above what a client does, and enough for a proxy that carries many of them on one session. */
const defaultStreamsPerSecond = 10_000
/** Between telling the engine to end what is left and closing the connections. */
const graceMs = 1000

/** What a server is made of. */
export interface ServerOptions {
  listen: Settings['listen']
  limits: Pick<Limits, 'clientHeader' | 'clientStall' | 'keepAlive' | 'connections'>
  /** New streams of one HTTP/2 session in a second; those above are refused unseen. Default 10,000. */
  streamsPerSecond?: number | undefined
  log: Logger
  /** Called for every sound request. Must answer through `incoming.client`. */
  handle(incoming: Incoming): void
  /**
   * Called for every sound WebSocket handshake on HTTP/1.1; `request.url` is in origin-form. The socket is the callee's,
   * errors included: refuse with `refuseUpgrade`. Without it handshakes are refused.
   */
  onUpgrade?: ((request: IncomingMessage, socket: Socket, head: Buffer) => void) | undefined
  /** Called once when `drain` has waited long enough: end now what is under way. */
  onDrainTimeout?: (() => void) | undefined
}

/** Figures for metrics, read when they are wanted. */
export interface ServerFigures {
  /** Open now. `undecided` ones have not sent enough to be told apart, or are in the TLS handshake. */
  connections: { http1: number; http2: number; undecided: number }
  /** Requests taken up and not answered yet. */
  active: number
  /** Since the start: connections closed as soon as they came, for want of room. */
  refusedConnections: number
  /** Since the start: requests refused by the server itself, before the engine saw them. */
  refusedRequests: number
}

/** One data listener. */
export class Server implements Front {
  readonly clientStall: number
  readonly keepAlive: number
  draining = false
  readonly #options: ServerOptions
  readonly #listener: Listener
  readonly #http1 = new Map<Socket, Http1Connection>()
  readonly #http2 = new Set<Http2Connection>()
  #active = 0
  #refusedRequests = 0
  #drained: Promise<{ cut: number }> | undefined
  #hurry: () => void = () => {}

  constructor(options: ServerOptions) {
    this.#options = options
    this.clientStall = options.limits.clientStall
    this.keepAlive = options.limits.keepAlive
    this.#listener = new Listener({
      ...options,
      // Others than WebSocket are treated as if they had not been asked for, which a server always may.
      upgrades: (request) => options.onUpgrade !== undefined && wantsWebSocket(request),
      onHttp1: (socket, remoteAddress) => this.#openHttp1(socket, remoteAddress),
      onHttp2: (socket, remoteAddress) => this.#openHttp2(socket, remoteAddress)
    })
    const { http1 } = this.#listener
    http1.on('request', (request, response) => this.#onRequest(request, response))
    http1.on('checkContinue', (request, response) => {
      inviteBody(this.#http1.get(request.socket)!, request, response)
      this.#onRequest(request, response)
    })
    // Any other expectation is refused with the head.
    http1.on('checkExpectation', (request, response) => this.#onRequest(request, response))
    http1.on('upgrade', (request, socket, head) => this.#onUpgrade(request, socket as Socket, head))
    http1.on('connect', (_request, socket) => {
      this.#refusedRequests++
      refuseUpgrade(socket, noTunnel())
    })
    http1.on('clientError', (error, socket) => this.#onClientError(error, socket as Socket))
  }

  /**
   * Binds the port and begins to serve.
   * @throws Error in the operator's words when the port cannot be had or a TLS file cannot be read
   */
  listen(): Promise<Address> {
    return this.#listener.listen()
  }

  get figures(): ServerFigures {
    const { open, connections, refused } = this.#listener
    return {
      connections: { ...open, undecided: connections - open.http1 - open.http2 },
      active: this.#active,
      refusedConnections: refused,
      refusedRequests: this.#refusedRequests
    }
  }

  /**
   * Stops in good order: accepts nothing more, closes idle connections, and lets answers under way finish. Requests that
   * still come on open connections are refused with `draining`. After `timeoutMs`, `onDrainTimeout` is called, and a
   * second later whatever is still open is closed. `cut` answers had not finished by themselves. Called once more with 0
   * it waits no longer.
   */
  drain(timeoutMs: number): Promise<{ cut: number }> {
    if (timeoutMs === 0) this.#hurry()
    return (this.#drained ??= this.#drain(timeoutMs))
  }

  /** Stops at once: the port and every connection are closed, answers under way are cut. */
  async close(): Promise<void> {
    this.#listener.stop()
    for (const connection of this.#http1.values()) connection.destroy()
    for (const connection of this.#http2) connection.destroy()
    await this.#listener.destroy()
  }

  /** Called by the clients. */
  began(): void {
    this.#active++
  }

  /** Called by the clients. */
  ended(): void {
    this.#active--
  }

  async #drain(timeoutMs: number): Promise<{ cut: number }> {
    this.draining = true
    this.#listener.stop()
    for (const connection of this.#http1.values()) connection.drain()
    for (const connection of this.#http2) connection.drain()
    let cut = 0
    const hurried = new Promise<false>((resolve) => (this.#hurry = () => resolve(false)))
    if (!(await Promise.race([this.#listener.emptied(timeoutMs), hurried]))) {
      cut = this.#active
      this.#options.onDrainTimeout?.()
      await this.#listener.emptied(graceMs)
    }
    await this.close()
    return { cut }
  }

  #openHttp1(socket: Socket, remoteAddress: string): void {
    this.#http1.set(socket, new Http1Connection(socket, remoteAddress, this))
    socket.once('close', () => this.#http1.delete(socket))
  }

  #openHttp2(socket: Socket, remoteAddress: string): void {
    const { http2 } = this.#listener
    const { limits, streamsPerSecond = defaultStreamsPerSecond } = this.#options
    const onSession = (session: ServerHttp2Session): void => {
      const connection = new Http2Connection(session, socket, remoteAddress, { idle: limits.keepAlive, streamsPerSecond }, this, (...request) =>
        this.#onStream(...request)
      )
      this.#http2.add(connection)
      socket.once('close', () => this.#http2.delete(connection))
    }
    // The session is made before emit() returns.
    http2.once('session', onSession).emit('connection', socket)
    http2.off('session', onSession)
  }

  #onRequest(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#http1.get(request.socket)!
    // What came behind the last answer of a connection has none.
    if (connection.closing) return
    if (response.socket) return this.#begin(connection, request, response)
    // Pipelined: Node gives the response its socket when the one before is out.
    if (++connection.waiting > maxPipelined) return connection.destroy()
    response.once('socket', () =>
      process.nextTick(() => {
        connection.waiting--
        if (!connection.closing && !connection.socket.destroyed) this.#begin(connection, request, response)
      })
    )
  }

  #begin(connection: Http1Connection, request: IncomingMessage, response: ServerResponse): void {
    const client = new Http1Client(connection, request, response)
    let head: RequestHead
    try {
      head = checkHttp1Head(request)
      if (asksUpgrade(request)) {
        // The parser has thrown away what came in one piece with the request, so the next one may not be whole.
        client.last = true
        if (wantsWebSocket(request)) throw new GatewayError('route_not_found', 'There is no WebSocket here.')
      }
    } catch (error) {
      client.last = true
      return this.#refuse(client, error)
    }
    this.#handle({
      method: request.method!,
      target: head.target,
      headers: head.headers,
      remoteAddress: connection.remoteAddress,
      httpVersion: request.httpVersion as Incoming['httpVersion'],
      body: request,
      client
    })
  }

  #onStream(connection: Http2Connection, stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: string[]): void {
    const client = new Http2Client(connection, stream, headers[':method'] === 'HEAD')
    let head: RequestHead
    try {
      head = checkHttp2Head(headers, raw)
    } catch (error) {
      return this.#refuse(client, error)
    }
    this.#handle({
      method: headers[':method']!,
      target: head.target,
      headers: head.headers,
      remoteAddress: connection.remoteAddress,
      httpVersion: '2.0',
      body: stream,
      client
    })
  }

  #handle(incoming: Incoming): void {
    if (this.draining) return this.#refuse(incoming.client, restarting())
    try {
      this.#options.handle(incoming)
    } catch (error) {
      this.#refuse(incoming.client, error)
    }
  }

  #onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const connection = this.#http1.get(socket)!
    // Behind pipelined requests: a 101 would be read as the answer to one of them.
    if (connection.client !== undefined || connection.waiting > 0) return connection.destroy()
    connection.closing = true
    try {
      request.url = checkHttp1Head(request).target
      if (this.draining) throw restarting()
      this.#options.onUpgrade!(request, socket, head)
    } catch (error) {
      refuseUpgrade(socket, this.#counted(error))
    }
  }

  #onClientError(error: NodeJS.ErrnoException & { reason?: string }, socket: Socket): void {
    const connection = this.#http1.get(socket)
    const refusal = parserRefusal(error)
    if (connection && refusal) {
      if (connection.fail(refusal)) this.#refusedRequests++
      // A connection that is closing sends what it has left first.
    } else if (!connection?.closing) socket.destroy()
  }

  #refuse(client: Client, error: unknown): void {
    const refusal = this.#counted(error)
    if (client.headSent) client.cut()
    else refuse(client, refusal)
  }

  #counted(error: unknown): GatewayError {
    const refusal = asGatewayError(error)
    if (refusal.code === 'internal_error') this.#options.log.error('a request could not be handled', { error: String(refusal.cause) })
    this.#refusedRequests++
    return refusal
  }
}

function restarting(): GatewayError {
  return new GatewayError('draining', 'The gateway is being restarted. Try again.', { retryAfterMs: 1000 })
}

/** What the parser found, for the client. Undefined: nothing was wrong with the request, the connection broke. */
function parserRefusal({ code = '', reason, message }: NodeJS.ErrnoException & { reason?: string }): GatewayError | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new GatewayError('request_timeout', 'The head of the request did not arrive in time.')
  if (!code.startsWith('HPE_') || code === 'HPE_INVALID_EOF_STATE') return undefined
  if (code === 'HPE_HEADER_OVERFLOW') return invalid(`The head of a request may have ${maxHeadBytes} bytes.`, 431)
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return invalid('The chunk extensions are too long.', 413)
  return invalid(`The request is not valid HTTP: ${reason ?? message}.`)
}

/** As the parser sees it: both headers, on HTTP/1.1 or older. */
function asksUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '')
}

function wantsWebSocket({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion === '1.1' && /\bwebsocket\b/i.test(headers.upgrade ?? '')
}

/** Answers `Expect: 100-continue` when the body is first asked for: an upload that is refused by its head is never sent. */
function inviteBody(connection: Http1Connection, request: IncomingMessage, response: ServerResponse): void {
  const read = request._read
  const { shouldKeepAlive } = response
  // A client that was refused may send its body all the same, and nobody could tell that from its next request.
  response.shouldKeepAlive = false
  request._read = (size) => {
    request._read = read
    if (!connection.closing) {
      response.writeContinue()
      response.shouldKeepAlive = shouldKeepAlive
    }
    request._read(size)
  }
}
