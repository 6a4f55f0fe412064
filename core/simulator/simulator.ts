// The simulator: a small HTTP server that stands in for upstreams, so that no network is needed.
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { jsonAnswer } from './answer.ts'
import type { Answer } from './answer.ts'
import type { Call, Protocol } from './endpoint.ts'
import { readBody } from './body.ts'
import type { Body } from './body.ts'
import { Delivery } from './delivery.ts'
import { RealtimeDoor } from './openai/realtime/door.ts'
import { Refusal } from './refusal.ts'
import { protocolOf, routeOf } from './routes.ts'
import { State } from './state.ts'
import { Stats } from './stats.ts'
import { Wheel } from './wheel.ts'
import { thrownText } from '../thrown.ts'

/** An import would also load Node's own HTTP client, which costs 45 ms of CPU. */
const { createServer } = process.getBuiltinModule('node:http')

const statsPath = '/__simulator/stats'

/**
 * All members are optional. By default the simulator listens on a free port of 127.0.0.1, and accepts any key and any
 * model.
 */
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
  /** `http://127.0.0.1:PORT`. The base address of OpenAI-compatible clients is this with `/v1`. */
  readonly url: URL
  readonly stats: Stats
  /** Stops listening, and ends all answers at once. */
  close(): Promise<void>
}

/** Starts a simulator. Resolves when it listens; rejects when it cannot listen on the address. */
export async function startSimulator({
  host = '127.0.0.1',
  port = 0,
  ...options
}: SimulatorOptions = {}): Promise<Simulator> {
  const desk = new Desk(options)
  const { stats } = desk
  // Longer than any client keeps an idle connection, so that the simulator is never the first to close one.
  const server = createServer({ keepAliveTimeout: 300_000, requestTimeout: 0 }, (request, response) =>
    desk.handle(request, response)
  )
  server.on('upgrade', (request, stream, head) => desk.open(request, stream, head))
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
      desk.close()
      server.close()
      server.closeAllConnections()
      if (server.listening || stats.connections > 0) await once(server, 'close')
    }
  }
}

/** Takes requests, and sees that each one is answered. */
class Desk {
  readonly stats = new Stats()
  readonly #state = new State(this.stats)
  readonly #wheel = new Wheel()
  readonly #key: string | undefined
  readonly #models: readonly string[] | undefined
  readonly #door: RealtimeDoor

  constructor({ key, models }: Pick<SimulatorOptions, 'key' | 'models'>) {
    this.#key = key
    this.#models = models
    this.#door = new RealtimeDoor({ key, models, wheel: this.#wheel, stats: this.stats })
  }

  /** Handles a request to open a WebSocket. */
  open(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    this.#door.open(request, stream, head)
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    if (request.method === 'GET' && request.url === statsPath) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(this.stats))
      return
    }
    readBody(request, (body) => {
      this.stats.requests++
      if (!(body instanceof Refusal)) this.stats.received(body.form?.files ?? [], clientRequestId(request))
      const [path = '', search] = request.url!.split('?', 2)
      const query = new URLSearchParams(search)
      const protocol = protocolOf(path, request.headers, query)
      const answer = this.#answer(request, protocol, path, query, body)
      const headers = protocol.headers(this.stats.requests)
      this.stats.active++
      const start = (socket: Socket): unknown =>
        new Delivery({
          response,
          socket,
          answer,
          headers,
          failure: answer.failure ?? protocol.failure,
          wheel: this.#wheel,
          ended: (ending) => {
            this.stats.ended(ending, answer.counts, clientRequestId(request))
            answer.ended?.(ending)
          }
        })
      // A pipelined request has no socket until the answers before it are sent.
      if (response.socket) start(response.socket)
      else response.once('socket', start)
    })
  }

  close(): void {
    this.#door.close()
    this.#wheel.stop()
    this.#state.close()
  }

  #answer(
    request: IncomingMessage,
    protocol: Protocol,
    path: string,
    query: URLSearchParams,
    body: Body | Refusal
  ): Answer {
    const { method, headers } = request
    try {
      if (body instanceof Refusal) throw body
      if (this.#key !== undefined && !protocol.admits(this.#key, headers, query)) {
        throw new Refusal(401, 'Incorrect API key provided.', { code: 'invalid_api_key' })
      }
      const { endpoint, params } = routeOf(protocol, method!, path)
      const call: Call = {
        body: body.bytes,
        form: body.form,
        params,
        query,
        headers,
        origin: `http://${headers.host}`,
        requestId: clientRequestId(request),
        state: this.#state,
        models: this.#models
      }
      return directed(endpoint.answer(call), protocol, this.stats.requests)
    } catch (error) {
      this.stats.refused++
      // The simulator may run inside a gateway, so an error in it must not end the process.
      const { status, message, details } =
        error instanceof Refusal ? error : new Refusal(500, `The simulator failed: ${thrownText(error)}.`)
      return jsonAnswer(protocol.envelope(status, message, details, this.stats.requests), { status })
    }
  }
}

/** The answer with the status and body that a directive asks for. */
function directed(answer: Answer, protocol: Protocol, n: number): Answer {
  const { directive } = answer
  if (directive.status === undefined && directive.body === undefined) return answer
  const status = directive.status ?? 200
  const given =
    directive.body ??
    (status < 300
      ? ''
      : protocol.envelope(status, `The simulator was told to answer ${status}.`, answer.refusal ?? {}, n))
  if (typeof given !== 'string') return jsonAnswer(given, directive)
  return {
    ...answer,
    contentType: given.startsWith('<') ? 'text/html; charset=utf-8' : answer.contentType,
    frames: [given].values(),
    length: Buffer.byteLength(given),
    counts: undefined
  }
}

function clientRequestId(request: IncomingMessage): string | undefined {
  const id = request.headers['x-request-id']
  return Array.isArray(id) ? id[0] : id
}
