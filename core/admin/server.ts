// The admin listener: health, metrics and the admin API, on a port of their own that clients need not reach.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { bind, descriptorOf } from '../clients/bind.ts'
import { asGatewayError, GatewayError, reasons } from '../errors.ts'
import { noBody } from '../clients/body-source.ts'
import { createServer } from '../wire/http.ts'
import { admit, disclosed, forbidden, mayUse } from './access/access.ts'
import { Admissions } from './access/admissions.ts'
import { checkJson } from './access/origins.ts'
import { OperatorBook } from './access/operator-book.ts'
import { Refusals } from './access/refusals.ts'
import { Seal } from './access/seal.ts'
import { SigningIn } from './access/signing-in.ts'
import { TokenCheck } from './access/token-check.ts'
import { leftOf } from './api/left.ts'
import { readJson } from './api/body.ts'
import type { Actor } from './api/audit.ts'
import type { Awaitable } from '../contract/contract.ts'
import type { AdminParts, Carrier, Flow, Written } from './api/contract.ts'
import { boundConnections } from './connections.ts'
import { Console, isOfConsole } from './console/console.ts'
import { everywhere } from './console/protection.ts'
import { Flows } from './flows.ts'
import type { FlowEnd } from './flows.ts'
import { checkHost, checkSingle, guardFor } from './guard.ts'
import type { Guard } from './guard.ts'
import { Live } from './live/live.ts'
import { Troubles } from './live/troubles.ts'
import { readQuery } from './api/query.ts'
import { ArrivingBody } from './playground/arriving-body.ts'
import { Playground } from './playground/playground.ts'
import { PlaygroundResponse } from './playground/response.ts'
import { offerOf, opensSocket, refuseSocket } from './playground/sockets.ts'
import { findRoute, routes } from './routes.ts'

/** Bounds for a listener with few users. Times are in milliseconds. */
const bounds = { headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 5000 }
const mostConnections = 256
/** How long answers under way may take when the listener is closed, in milliseconds. */
const closeAfterMs = 5000

/** The routes that need nobody to be known. */
const open: ReadonlySet<string> = new Set(
  routes.flatMap(({ access, method, path }) => (access === 'anyone' ? [`${method} ${path}`] : []))
)

/** What the listener shows, without what it makes itself. */
type Shown = Omit<AdminParts, 'signingIn' | 'seal' | 'live' | 'troubles'>

/** The actor of routes that anyone may use. */
const nobody: Actor = { kind: 'unknown', id: 'nobody', address: null, role: 'viewer', tenant: null }

/** An answer of a route, in which those who asked are watched over. */
type Given = Written | { take(carrier: Omit<Carrier, 'watch'>): Awaitable<void> }

/** A running admin listener. */
export class AdminServer {
  /** The address of the listener: `http://127.0.0.1:9090`. */
  readonly url: string
  readonly #parts: AdminParts
  readonly #guard: Guard
  readonly #server: Server
  readonly #operators: OperatorBook
  readonly #refusals: Refusals
  readonly #admissions: Admissions
  readonly #flows = new Flows()
  readonly #playground: Playground
  readonly #live: Live
  readonly #console: Console | undefined
  #leaving = false
  /** Resolves when the last connection is closed, once the listener is. */
  #left: Promise<unknown> | undefined

  private constructor(parts: Shown, server: Server) {
    const { address, port } = server.address() as AddressInfo
    this.url = `http://${address.includes(':') ? `[${address}]` : address}:${port}`
    const { settings, generations, log } = parts
    this.#playground = new Playground(parts.serve, () => generations.current.config.settings.limits.clientStall)
    const { documents } = parts.store
    this.#console = settings.console ? new Console(parts.console) : undefined
    this.#operators = new OperatorBook(documents, log)
    this.#refusals = new Refusals(documents, log)
    this.#admissions = new Admissions(documents)
    const tokens = new TokenCheck(settings.token, {
      find: (token) => this.#operators.find(token),
      wrongToken: (address, path, times) => this.#refusals.wrongToken(address, path, times)
    })
    const seal = new Seal(documents)
    const signingIn = new SigningIn({
      settings,
      url: this.url,
      documents,
      seal,
      operators: this.#operators,
      tokens,
      log,
      rightsOf: (grant) => routes.flatMap((one) => (mayUse(grant, one) ? [`${one.method} ${one.path}`] : [])),
      refusedSignIn: (address, why, who) => this.#refusals.signIn(address, why, who)
    })
    this.#live = new Live(parts.finished)
    const troubles = new Troubles(parts)
    this.#parts = { ...parts, signingIn, seal, playground: this.#playground, live: this.#live, troubles }
    this.#guard = guardFor(settings.token === '', { tokens, session: signingIn.actorOf })
    this.#server = server
    server.on('request', (request, response) => void this.#serve(request, response))
    server.on('upgrade', (request, socket, head) => void this.#open(request, socket as Socket, head))
  }

  /**
   * Binds the port, or takes the bound socket `fd`, and begins to serve.
   * @throws Error with a message for operators when the port cannot be bound
   */
  static async start(parts: Shown, fd?: number): Promise<AdminServer> {
    const server = createServer({ ...bounds, shouldUpgradeCallback: opensSocket })
    boundConnections(server, mostConnections)
    await bind(server, parts.settings, 'admin', fd === undefined ? undefined : { fd })
    server.on('error', (error) => parts.log.error('the admin listener met an error', { error: error.message }))
    const started = new AdminServer(parts, server)
    const { host } = new URL(started.url)
    if (host !== new URL(parts.clients).host) return started
    server.close()
    throw new Error(`LISTEN_FDS passes one socket for both, ${host}: clients would meet the admin API`)
  }

  /** The file descriptor of the listening socket. */
  get descriptor(): number {
    return descriptorOf(this.#server)
  }

  /** Accepts no more connections, as another process does so, and answers once more on those that are open. */
  leave(): void {
    this.#leaving = true
    this.#left = once(this.#server, 'close')
    void this.#flows.end('stopping')
    this.#playground.refuse()
    // That of an HTTP server would also close connections on which a request may be on its way.
    NetServer.prototype.close.call(this.#server)
  }

  /**
   * Accepts no more connections, ends those that are idle, and gives answers under way five seconds to end: on a busy
   * machine the answer to an upgrade waits that long for its entry in the audit log.
   */
  async close(): Promise<void> {
    const ended = this.#flows.end('stopping')
    this.#playground.close()
    const closed = this.#left ?? new Promise<void>((resolve) => this.#server.close(() => resolve()))
    if (this.#left) this.#server.closeIdleConnections()
    const timer = setTimeout(() => this.#server.closeAllConnections(), closeAfterMs)
    await ended
    // A connection whose stream has ended is idle now.
    this.#server.closeIdleConnections()
    await closed
    clearTimeout(timer)
    this.#live.close()
    this.#operators.close()
    this.#admissions.close()
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let answer: Written
    const requestId = `adm_${randomUUID()}`
    response.setHeader('x-request-id', requestId)
    try {
      const given = await this.#answer(request, requestId)
      if ('take' in given) {
        const client = new PlaygroundResponse(this.#playground, response)
        return await given.take({ request, client, body: new ArrivingBody(request), over: response })
      }
      answer = given
    } catch (error) {
      answer = this.#refuse(asGatewayError(error), request)
    }
    const head = {
      'content-type': 'json' in answer ? 'application/json' : answer.contentType,
      'cache-control': 'no-store',
      ...everywhere,
      ...(this.#leaving && { connection: 'close' }),
      ...answer.headers
    }
    const status = answer.status ?? 200
    if ('flow' in answer) return this.#pour(request, response.writeHead(status, head), answer.flow)
    const body = 'json' in answer ? `${JSON.stringify(answer.json)}\n` : 'bytes' in answer ? answer.bytes : answer.text
    // What is not sent again has the length that the browser knows, and not zero.
    response.writeHead(status, { ...head, ...(status !== 304 && { 'content-length': Buffer.byteLength(body) }) })
    response.end(body)
  }

  /** Takes a WebSocket handshake. Never rejects. */
  async #open(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const offer = offerOf(this.#playground, request, socket, head)
    const requestId = `adm_${randomUUID()}`
    try {
      const answer = await this.#answer(request, requestId)
      if (!('take' in answer)) throw new GatewayError('route_not_found', 'There is no WebSocket here.')
      await answer.take({ request, client: offer, body: noBody, socket: offer, over: socket })
    } catch (error) {
      refuseSocket(offer, requestId, this.#refuse(asGatewayError(error), request))
    }
  }

  /** Never rejects. */
  async #pour({ method, url }: IncomingMessage, response: ServerResponse, flow: Flow): Promise<void> {
    if (method === 'HEAD') return void response.end()
    response.flushHeaders()
    try {
      await this.#flows.run(response, flow)
    } catch (error) {
      this.#parts.log.error('an admin answer broke off', { method, path: url, error: reasons(error) })
    }
  }

  async #answer(request: IncomingMessage, requestId: string): Promise<Given> {
    const { method = '', url = '' } = request
    const path = url.split('?', 1)[0]!
    // The guard comes before the route, so that only those who are admitted learn which routes exist.
    checkSingle(request)
    const actor = this.#isOpen(request, method, path)
      ? { ...nobody, address: request.socket.remoteAddress ?? null }
      : await this.#guard(request)
    const by = { ...actor, requestId }
    try {
      return await this.#handle(request, method, path, url.slice(path.length + 1), by)
    } catch (error) {
      if (error instanceof GatewayError) this.#refusals.denied(by, method, path, error)
      throw error
    }
  }

  /**
   * Whether a request needs nobody to be known.
   * @throws GatewayError when it comes by a name, or from a page, that may not ask for it
   */
  #isOpen(request: IncomingMessage, method: string, path: string): boolean {
    if (!path.startsWith('/admin')) return true
    const { signingIn, settings } = this.#parts
    const reads = method === 'GET' || method === 'HEAD'
    const isOpen = open.has(`${reads ? 'GET' : method} ${path}`)
    // Whoever sends a token is no page that was lured here. Without one in the file, the guard is stricter.
    if (isOpen || (request.headers.authorization === undefined && settings.token !== ''))
      signingIn.origins.checkHost(request)
    // The provider's page leads to what is read as well; what changes something comes from our own alone.
    if (isOpen && !reads) signingIn.origins.checkPage(request)
    return isOpen
  }

  async #handle(request: IncomingMessage, method: string, path: string, parameters: string, by: Actor): Promise<Given> {
    if (this.#console && isOfConsole(path)) {
      this.#parts.signingIn.origins.checkHost(request)
      return this.#console.answer(method, path, parameters, request.headers)
    }
    const { route, names } = findRoute(method, path)
    if (route.local) await checkHost(request, this.#guard)
    const query = route.query ? readQuery(parameters, route.query) : new Map<string, string>()
    const asked = {
      query,
      names,
      by,
      search: parameters === '' ? '' : `?${parameters}`,
      cookies: request.headers.cookie ?? '',
      host: request.headers.host ?? '',
      agent: request.headers['user-agent'] ?? '',
      accept: request.headers.accept ?? '',
      lastEvent: String(request.headers['last-event-id'] ?? ''),
      left: leftOf(request.socket),
      json: async () => {
        if (by.session !== undefined || by.kind === 'unknown') checkJson(request)
        const body = await readJson(request, route.largest)
        await this.#stillAdmits(request, by)
        return body
      }
    }
    if (by.tenant !== null && route.query?.includes('cursor')) await this.#parts.seal.ready()
    const call = admit(asked, route, this.#parts)
    const answer = disclosed(await route.handle(call, this.#parts), route, call, this.#parts)
    if (!('flow' in answer || 'take' in answer)) return answer
    const check = async (): Promise<void> => {
      await this.#stillAdmits(request, by)
      admit(asked, route, this.#parts)
    }
    if ('flow' in answer) return { ...answer, flow: this.#whileAdmitted(answer.flow, check) }
    const watch = (out: () => void): (() => void) => this.#admissions.watch(check, out)
    return { take: (carrier) => answer.take({ ...carrier, watch }) }
  }

  /** A flow that ends when `check` rejects, as whoever asked for it would not be let in any more. */
  #whileAdmitted(flow: Flow, check: () => Promise<void>): Flow {
    return async (to, ended) => {
      const out = new AbortController()
      const forget = this.#admissions.watch(check, () => out.abort('signed_out' satisfies FlowEnd))
      try {
        await flow(to, AbortSignal.any([ended, out.signal]))
      } finally {
        forget()
      }
    }
  }

  /**
   * Checks whoever sent a request again, when its body is there or while its answer goes on, which may take long: a
   * token that was revoked meanwhile does nothing any more.
   * @throws GatewayError when they would not be admitted now, or not as who they were
   */
  async #stillAdmits(request: IncomingMessage, { kind, role, tenant, session }: Actor): Promise<void> {
    if (kind !== 'operator' && session === undefined) return
    const now = await this.#guard(request, true)
    if (now.role !== role || now.tenant !== tenant)
      throw forbidden('Your role was changed while this request was under way: send it again.')
  }

  #refuse(error: GatewayError, { method, url }: IncomingMessage): Written & { json: unknown } {
    const {
      status,
      type,
      message,
      code,
      details: { cause, headers = [], param, retryAfterMs, shownCode }
    } = error
    if (code === 'internal_error')
      this.#parts.log.error('an admin request failed', { method, path: url, error: reasons(cause) })
    const after = retryAfterMs !== undefined && { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
    return {
      status,
      headers: { ...Object.fromEntries(headers), ...after },
      json: { error: { type, message, code: shownCode ?? code, param } }
    }
  }
}
