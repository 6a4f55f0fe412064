// Feeds bytes of requests to the parser of the server and to llhttp, and says what each of them read.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Duplex } from 'node:stream'
import { RequestParser } from '../../../../core/clients/http1/request-parser.ts'

/** A request as it was understood. */
export interface Request {
  method: string
  target: string
  /** Lower-case names; each with its values as they count. */
  headers: Record<string, string | string[] | undefined>
  /** latin1. */
  body: string
}

/** Every request that was whole, in order, and what was wrong with the one that was refused. */
export interface Parsed {
  requests: Request[]
  fault: { status: number; message: string } | undefined
}

/**
 * Reads the pieces as a connection would, up to a request that is the last one by its own word. They are copied first:
 * the parser moves bytes about.
 */
export function parse(pieces: readonly Buffer[]): Parsed {
  const parser = new RequestParser()
  const requests: Request[] = []
  let body: Buffer[] | undefined
  let last = false
  const finish = (): void => {
    const { method, target, headers, persistent } = parser.head!
    requests.push({ method, target, headers: { ...headers }, body: Buffer.concat(body!).toString('latin1') })
    body = undefined
    last = !persistent
  }
  for (const piece of pieces) {
    const bytes = Buffer.from(piece)
    for (let at = 0; at < bytes.length && !parser.fault && !last;) {
      if (body) {
        at = parser.readBody(bytes, at)
        body.push(Buffer.from(bytes.subarray(parser.from, parser.to)))
        if (parser.ended) finish()
      } else {
        at = parser.readHead(bytes, at)
        if (!parser.head) continue
        body = []
        if (parser.head.length === 0) finish()
      }
    }
  }
  const { fault } = parser
  return { requests, fault: fault && { status: fault.status, message: fault.message } }
}

/** Names of which this server shows every value, and Node's the first. */
const shown = ['host', 'authorization', 'x-api-key', 'x-goog-api-key', 'content-type']

/** What Node's own server makes of the same bytes. Bytes that come in one piece with an upgrade are lost to it. */
export async function parseWithNode(bytes: Buffer): Promise<Parsed> {
  const requests: Request[] = []
  let fault: Parsed['fault']
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const body: Buffer[] = []
    request.on('data', (chunk: Buffer) => body.push(chunk))
    request.on('error', () => {})
    request.on('end', () => {
      const { method = '', url = '', rawHeaders } = request
      const headers: Request['headers'] = { ...request.headers }
      for (const name of shown) {
        const values = rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name)
        if (values.length > 1) headers[name] = values
      }
      requests.push({ method, target: url, headers, body: Buffer.concat(body).toString('latin1') })
      response.end()
    })
  }
  const server = createServer({ requireHostHeader: false }, take).on('checkContinue', take).on('checkExpectation', take)
  server.maxHeadersCount = 0
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
  server.on('clientError', (error: NodeJS.ErrnoException) => (fault ??= { status: 400, message: error.code ?? '' }))
  server.emit('connection', socket)
  socket.push(bytes)
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
  socket.destroy()
  return { requests, fault }
}

/** The same bytes in two pieces, cut everywhere once. */
export function* cuts(bytes: Buffer): Generator<Buffer[]> {
  for (let at = 1; at < bytes.length; at++) yield [bytes.subarray(0, at), bytes.subarray(at)]
}
