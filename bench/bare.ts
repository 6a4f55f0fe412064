// The least that a relay in Node can do: node:http in front, undici's dispatch behind, and nothing between. The
// difference to Sluice is what Sluice adds.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { serve } from './child.ts'

const [upstream] = process.argv.slice(2)
/** undici searches all sockets of a pool for a free one, so streams are spread over several pools. */
const pools: { pool: Pool; active: number }[] = []

/** Answers up to this length are sent in one write; longer ones are sent as they come. */
const wholeBytes = 64 * 1024

/** Relays the answer to one request. Small JSON is sent in one write, everything else as it comes. */
class Relay implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse
  readonly #onEnd: () => void
  #head: [number, string[]] | null = null
  #body: Buffer | null = null

  constructor(response: ServerResponse, onEnd: () => void) {
    this.#response = response
    this.#onEnd = onEnd
  }

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>
  ): void {
    const flat = ['content-type', String(headers['content-type'])]
    const length = headers['content-length']
    if (length !== undefined) flat.push('content-length', String(length))
    if (Number(length) <= wholeBytes) {
      this.#head = [status, flat]
    } else {
      this.#response.writeHead(status, flat)
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#head) this.#response.write(chunk)
    else this.#body = this.#body ? Buffer.concat([this.#body, chunk]) : chunk
  }

  onResponseEnd(): void {
    if (this.#head) this.#response.writeHead(...this.#head)
    this.#response.end(this.#body)
    this.#onEnd()
  }

  onResponseError(): void {
    this.#response.destroy()
    this.#onEnd()
  }
}

function relay(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    let shard = pools.find(({ active }) => active < 256)
    if (!shard)
      pools.push(
        (shard = { pool: new Pool(upstream!, { connections: 256, allowH2: false, bodyTimeout: 0 }), active: 0 })
      )
    const taken = shard
    taken.active++
    taken.pool.dispatch(
      {
        method: 'POST',
        path: request.url!,
        headers: ['content-type', String(request.headers['content-type'])],
        body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
      },
      new Relay(response, () => taken.active--)
    )
  })
}

const server = createServer({ keepAliveTimeout: 600_000, requestTimeout: 0 }, relay)
server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
  serve({ port: (server.address() as AddressInfo).port }, () => {
    globalThis.gc!()
    return { heap: process.memoryUsage().heapUsed / 1024 }
  })
})
