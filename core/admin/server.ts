// The operator's listener: health, metrics and the admin API, apart from the one that clients use.
import { randomUUIDv7 } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { asGatewayError, GatewayError } from '../errors.ts'
import { suggestion } from '../suggest.ts'
import { checkAccess } from './access.ts'
import type { AdminParts, AdminReply, AdminRequest, Route } from './contract.ts'
import { findRoutes } from './routes.ts'

const largestBody = 64 * 1024
const limits = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 15_000, maxHeaderSize: 16 * 1024 }
const mostConnections = 1000

/** A running admin listener. */
export class AdminServer {
  readonly url: string
  readonly #server: Server

  private constructor(server: Server) {
    const { address, port } = server.address() as AddressInfo
    this.#server = server
    this.url = `http://${address.includes(':') ? `[${address}]` : address}:${port}`
  }

  /** @throws Error naming the address, when it can not be bound */
  static async start(parts: AdminParts): Promise<AdminServer> {
    const { host, port } = parts.settings
    const server = createServer(limits, (request, response) => void serve(request, response, parts))
    server.maxConnections = mostConnections
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) => reject(bindError(error, host, port)))
      server.listen({ host, port }, resolve)
    })
    return new AdminServer(server)
  }

  /** Answers under way are cut. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }
}

async function serve(request: IncomingMessage, response: ServerResponse, parts: AdminParts): Promise<void> {
  request.on('error', () => {})
  try {
    send(response, await answer(request, parts))
  } catch (thrown) {
    const error = asGatewayError(thrown)
    if (error.code === 'internal_error') parts.log.error('an admin request failed', { path: request.url?.split('?', 1)[0], error: thrown })
    for (const [name, value] of error.details.headers ?? []) response.setHeader(name, value)
    // What is left of a body that nobody reads would be taken for the next request.
    if (!request.complete) response.setHeader('connection', 'close')
    const { message, type, details: { shownCode, param } } = error
    send(response, { status: error.status, body: { error: { type, message, code: shownCode ?? error.code, param } } })
  }
}

function send(response: ServerResponse, reply: AdminReply): void {
  const text = 'text' in reply ? reply.text : `${JSON.stringify(reply.body)}\n`
  response.writeHead(reply.status ?? 200, {
    'content-type': 'text' in reply ? reply.contentType : 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': randomUUIDv7()
  })
  response.end(text)
}

async function answer(request: IncomingMessage, parts: AdminParts): Promise<AdminReply> {
  const { url = '/', method = 'GET' } = request
  const [path = '', query = ''] = url.split(/\?(.*)/s, 2)
  const found = findRoutes(path)
  // What is behind the token is not told to those without it, not even that it is not there.
  if (!found?.operations[0]!.open) checkAccess(request, parts.settings.token)
  if (!found) throw new GatewayError('route_not_found', `There is nothing at ${path.slice(0, 200)} on the admin listener.`)
  const route = found.operations.find((operation) => operation.method === (method === 'HEAD' ? 'GET' : method))
  if (!route) {
    const methods = found.operations.map((operation) => operation.method).join(', ')
    throw new GatewayError('method_not_allowed', `${path.slice(0, 200)} takes ${methods}, not ${method.slice(0, 20)}.`, { headers: [['allow', methods]] })
  }
  return route.handle({
    query: readQuery(query, route),
    argument: found.argument,
    accept: request.headers.accept ?? '',
    body: method === 'POST' ? await readBody(request) : undefined
  }, parts)
}

function readQuery(query: string, { query: known = [], path }: Route): AdminRequest['query'] {
  const values: Record<string, string> = Object.create(null)
  const refuse = (name: string, what: string): never => {
    throw new GatewayError('invalid_field', `${path}: the parameter ${JSON.stringify(name.slice(0, 40))} ${what}.`, { param: name.slice(0, 40) })
  }
  for (const [name, value] of new URLSearchParams(query)) {
    if (!known.includes(name)) refuse(name, `is not known${suggestion(name, known)}`)
    if (name in values) refuse(name, 'stands there twice')
    if (value === '') refuse(name, 'has no value')
    values[name] = value
  }
  return values
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    if (size > largestBody) throw new GatewayError('request_too_large', `The body is larger than ${largestBody} bytes.`)
  }
  if (size === 0) return undefined
  const type = String(request.headers['content-type'] ?? 'none').split(';', 1)[0]!.trim().toLowerCase()
  if (type !== 'application/json') throw new GatewayError('unsupported_media_type', `The body must be application/json, not ${type.slice(0, 100)}.`)
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  } catch {
    throw new GatewayError('invalid_json', 'The body is not JSON.')
  }
}

function bindError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const remedies: Record<string, string> = {
    EADDRINUSE: `${place} is in use by another process. Stop that process, or choose another admin.port.`,
    EACCES: `${place} may not be bound by this user. Choose an admin.port above 1023, or grant the right to bind it.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Choose another admin.host.`,
    ENOTFOUND: `${host} is not known as an address or name. Choose another admin.host.`
  }
  return new Error(remedies[error.code ?? ''] ?? `${place} cannot be listened on: ${error.message}`, { cause: error })
}
