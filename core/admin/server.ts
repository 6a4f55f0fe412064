// The admin listener: health, metrics and the admin API, on a port of their own that clients need not reach.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { bind } from '../clients/bind.ts'
import { asGatewayError } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import { createServer } from '../wire/http.ts'
import { readJson } from './body.ts'
import type { Actor } from './audit.ts'
import type { AdminParts, Answer } from './contract.ts'
import { boundConnections } from './connections.ts'
import { checkHost, checkSingle, guardFor } from './guard.ts'
import type { Guard } from './guard.ts'
import { readQuery } from './query.ts'
import { findRoute } from './routes.ts'

/** Bounds for a listener with few users. Times are in milliseconds. */
const bounds = { headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 5000 }
const mostConnections = 256
/** How long answers under way may take when the listener is closed, in milliseconds. */
const closeAfterMs = 1000

/** The actor of routes that anyone may use. */
const nobody: Actor = { kind: 'local', id: 'nobody', address: null }

/** A running admin listener. */
export class AdminServer {
  /** The address of the listener: `http://127.0.0.1:9090`. */
  readonly url: string
  readonly #parts: AdminParts
  readonly #guard: Guard
  readonly #server: Server

  private constructor(parts: AdminParts, server: Server) {
    const { address, port } = server.address() as AddressInfo
    this.url = `http://${address.includes(':') ? `[${address}]` : address}:${port}`
    this.#parts = parts
    this.#guard = guardFor(parts.settings.token, parts.log)
    this.#server = server
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  /**
   * Binds the port and begins to serve.
   * @throws Error with a message for operators when the port cannot be bound
   */
  static async start(parts: AdminParts): Promise<AdminServer> {
    const server = createServer(bounds)
    boundConnections(server, mostConnections)
    await bind(server, parts.settings, 'admin')
    server.on('error', (error) => parts.log.error('the admin listener met an error', { error: error.message }))
    return new AdminServer(parts, server)
  }

  /** Accepts no more connections, and gives answers under way a second to end. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const timer = setTimeout(() => this.#server.closeAllConnections(), closeAfterMs)
    await closed
    clearTimeout(timer)
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let answer: Answer
    try {
      answer = await this.#answer(request)
    } catch (error) {
      answer = this.#refuse(asGatewayError(error), request, response)
    }
    const text = 'json' in answer ? `${JSON.stringify(answer.json)}\n` : answer.text
    response.writeHead(answer.status ?? 200, {
      'content-type': 'json' in answer ? 'application/json' : answer.contentType,
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff'
    })
    response.end(text)
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const { method = '', url = '', headers } = request
    const mark = url.indexOf('?')
    const path = mark === -1 ? url : url.slice(0, mark)
    // The guard comes before the route, so that only those who are admitted learn which routes exist.
    checkSingle(request)
    const by = path.startsWith('/admin') ? await this.#guard(request) : nobody
    const { route, names } = findRoute(method, path)
    if (route.local) await checkHost(request, this.#guard)
    const query = route.query
      ? readQuery(mark === -1 ? '' : url.slice(mark + 1), route.query)
      : new Map<string, string>()
    const call = { query, names, by, accept: headers.accept ?? '', json: () => readJson(request, route.largest) }
    return route.handle(call, this.#parts)
  }

  #refuse(error: GatewayError, { method, url }: IncomingMessage, response: ServerResponse): Answer {
    const {
      status,
      type,
      message,
      code,
      details: { cause, headers = [], param, retryAfterMs, shownCode }
    } = error
    if (code === 'internal_error')
      this.#parts.log.error('an admin request failed', { method, path: url, error: String(cause) })
    for (const [field, value] of headers) response.setHeader(field, value)
    if (retryAfterMs !== undefined) response.setHeader('retry-after', Math.max(1, Math.ceil(retryAfterMs / 1000)))
    return { status, json: { error: { type, message, code: shownCode ?? code, param } } }
  }
}
