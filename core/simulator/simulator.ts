// The simulator: a small HTTP server that stands in for an OpenAI-compatible upstream, on loopback and without a network.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { jsonAnswer } from './answer.ts'
import type { Answer, Endpoint } from './answer.ts'
import { chat } from './chat.ts'
import { Delivery } from './delivery.ts'
import { modelDetail, modelList } from './models.ts'
import { Refusal, errorEnvelope } from './refusal.ts'
import { Stats } from './stats.ts'
import { Wheel } from './wheel.ts'

const endpoints: readonly Endpoint[] = [chat, modelList, modelDetail]
const statsPath = '/__simulator/stats'
const largestBody = 128 * 1024 * 1024

/** All optional: by default it listens on a free port of 127.0.0.1 and takes any key and any model name. */
export interface SimulatorOptions {
  host?: string
  port?: number
  /** The only credential that is accepted. */
  key?: string
  /** The only models that are served. */
  models?: readonly string[]
}

/** A running simulator. */
export interface Simulator {
  /** `http://127.0.0.1:PORT`, without a path: an OpenAI-compatible base address is this with `/v1`. */
  readonly url: URL
  readonly stats: Stats
  /** Stops listening and cuts what is still running. */
  close(): Promise<void>
}

/** Starts a simulator; resolves when it listens. Rejects when the address can not be had. */
export async function startSimulator({ host = '127.0.0.1', port = 0, key, models }: SimulatorOptions = {}): Promise<Simulator> {
  const stats = new Stats()
  const wheel = new Wheel()
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    if (request.method === 'GET' && request.url === statsPath) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(stats))
      return
    }
    readBody(request, (body) => {
      stats.requests++
      const answer = answerOf(request, body)
      const headers = { 'x-request-id': `req_${stats.requests}`, 'openai-organization': 'simulator', 'openai-version': '2020-10-01' }
      stats.active++
      const start = (socket: Socket): unknown =>
        new Delivery(response, socket, answer, headers, wheel, (ending) => stats.ended(ending, answer.tokens, clientRequestId(request)))
      // A pipelined request has no socket to write to until the answers before it are out.
      if (response.socket) start(response.socket)
      else response.once('socket', start)
    })
  }
  const answerOf = (request: IncomingMessage, body: Buffer | undefined): Answer => {
    try {
      if (!body) throw new Refusal(413, `The request body is larger than ${largestBody} bytes.`)
      authenticate(request, key)
      return directed(route(request, body, models))
    } catch (error) {
      stats.refused++
      if (error instanceof Refusal) return jsonAnswer(errorEnvelope(error.message, error.details), { status: error.status })
      // It may run inside a gateway: what it can not answer must not end the process.
      return jsonAnswer(errorEnvelope(`The simulator failed: ${String(error)}.`, { type: 'server_error' }), { status: 500 })
    }
  }

  // Longer than any client keeps an idle connection: who closes first should never be the simulator.
  const server = createServer({ keepAliveTimeout: 300_000, requestTimeout: 0 }, handle)
  server.on('connection', (socket) => {
    stats.connections++
    socket.once('close', () => stats.connections--)
  })
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  return {
    url: new URL(`http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`),
    stats,
    async close() {
      wheel.stop()
      server.close()
      server.closeAllConnections()
      if (server.listening || stats.connections > 0) await once(server, 'close')
    }
  }
}

/** Calls back with the whole body, or with nothing when it is too large; not at all when the client left. */
function readBody(request: IncomingMessage, done: (body: Buffer | undefined) => void): void {
  const chunks: Buffer[] = []
  let length = 0
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= largestBody) chunks.push(chunk)
    else chunks.length = 0
  })
  request.once('end', () => done(length <= largestBody ? Buffer.concat(chunks) : undefined))
}

function authenticate(request: IncomingMessage, key: string | undefined): void {
  if (key === undefined || request.headers.authorization === `Bearer ${key}`) return
  throw new Refusal(401, 'Incorrect API key provided.', { code: 'invalid_api_key' })
}

function route(request: IncomingMessage, body: Buffer, models: readonly string[] | undefined): Answer {
  const path = request.url!.split('?', 1)[0]!
  const found = endpoints.filter((endpoint) => path === endpoint.path || (endpoint.path.endsWith('/') && path.startsWith(endpoint.path)))
  const endpoint = found.find(({ method }) => method === request.method)
  if (endpoint) {
    return endpoint.answer({ body, argument: decode(path.slice(endpoint.path.length)), models })
  }
  if (found.length === 0) throw new Refusal(404, `Invalid URL (${request.method} ${path})`)
  throw new Refusal(405, `Not allowed to ${request.method} on ${path}.`, { code: 'method_not_supported' })
}

function decode(argument: string): string {
  try {
    return decodeURIComponent(argument)
  } catch {
    throw new Refusal(404, `The model '${argument}' does not exist`, { param: 'model', code: 'model_not_found' })
  }
}

/** The answer that a directive puts in the place of the endpoint's own. */
function directed(answer: Answer): Answer {
  const { directive } = answer
  if (directive.status === undefined && directive.body === undefined) return answer
  const status = directive.status ?? 200
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error'
  const given = directive.body ?? (status < 300 ? '' : errorEnvelope(`The simulator was told to answer ${status}.`, { type }))
  if (typeof given !== 'string') return jsonAnswer(given, directive)
  return {
    ...answer,
    contentType: given.startsWith('<') ? 'text/html; charset=utf-8' : answer.contentType,
    frames: [given].values(),
    length: Buffer.byteLength(given),
    tokens: undefined
  }
}

function clientRequestId(request: IncomingMessage): string | undefined {
  const id = request.headers['x-request-id']
  return Array.isArray(id) ? id[0] : id
}
