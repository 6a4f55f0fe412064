// The least that a relay of our own HTTP costs: the server of core/clients in front, the transport of core/transport
// behind, and nothing between. The difference to Sluice is what all that a gateway does adds.
import type { Incoming } from '../core/clients/client.ts'
import { Server } from '../core/clients/server.ts'
import type { Channel } from '../core/catalogue/catalogue.ts'
import { silentLog } from '../core/telling/log.ts'
import type { UpstreamHeaders, UpstreamSink } from '../core/transport/transport.ts'
import { Transports } from '../core/transport/transports.ts'
import { HeaderLines } from '../core/wire/response-head.ts'
import { serve } from './child.ts'

const [upstream] = process.argv.slice(2)
const long = 3_600_000
/** Answers up to this length are sent in one write; longer ones are sent as they come. */
const wholeBytes = 64 * 1024

const channel: Channel = {
  name: 'upstream',
  protocol: 'openai',
  baseUrl: new URL(`${upstream}`),
  credential: '',
  endpoints: new Set(['chat']),
  private: true,
  models: new Map(),
  switch: 'on',
  weight: 1,
  priority: 0,
  timeouts: { connect: long, firstByte: long, idle: long, total: long },
  modelPath: undefined,
  traits: {},
  headers: {},
  tls: undefined,
  reuse: true,
  proxy: undefined,
  http: 1,
  streamOptions: true,
  transport: 'own'
}

const transport = new Transports()
await transport.use([channel])
const server = new Server({
  listen: { host: '127.0.0.1', port: 0, tls: undefined },
  limits: { clientHeader: long, clientStall: long, keepAlive: long, connections: 100_000 },
  log: silentLog,
  handle(incoming) {
    const pieces: Buffer[] = []
    incoming.body.receive({
      data: (chunk) => void pieces.push(Buffer.from(chunk)),
      end: () => send(incoming, pieces),
      lost: () => {}
    })
  }
})

function send({ target, headers, client }: Incoming, body: Buffer[]): void {
  const type = String(headers['content-type'])
  const request = { method: 'POST', path: target, headers: ['content-type', type], body } as const
  const call = transport.send(channel, request, new Relay(client))
  const abort = (): void => call.abort()
  client.onGone = abort
}

/** Relays one answer. */
class Relay implements UpstreamSink {
  readonly #client: Incoming['client']
  #whole: { status: number; lines: HeaderLines } | undefined
  readonly #pieces: Buffer[] = []

  constructor(client: Incoming['client']) {
    this.#client = client
  }

  onHead(status: number, headers: UpstreamHeaders): void {
    const lines = HeaderLines.of('content-type', String(headers['content-type']))
    if (Number(headers['content-length']) <= wholeBytes) this.#whole = { status, lines }
    else this.#client.head(status, lines)
  }

  onData(chunk: Buffer): void {
    if (this.#whole) this.#pieces.push(chunk)
    else this.#client.write(chunk)
  }

  onEnd(): void {
    if (!this.#whole) return this.#client.end()
    const body = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#client.reply(this.#whole.status, this.#whole.lines, body)
  }

  onError(): void {
    this.#client.cut()
  }
}

const { port } = await server.listen()
serve({ port }, () => {
  globalThis.gc!()
  return { heap: process.memoryUsage().heapUsed / 1024 }
})
