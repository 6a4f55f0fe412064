// Feeds bytes of answers to the upstream's parser and to llhttp, and says what each of them read.
import { request } from 'node:http'
import { Duplex } from 'node:stream'
import { ResponseParser } from '../../../core/transport/http1/response-parser.ts'

/** An answer as it was understood; undefined when it was refused or is not whole. */
export interface Answer {
  status: number
  /** Lower-case names, each with all its values. */
  headers: Record<string, string[]>
  /** latin1. */
  body: string
}

/** What the parser made of the pieces, one push each, and then of the end of the connection. */
export interface Parsed {
  answer: Answer | undefined
  /** Why it was refused. */
  fault: string | undefined
  /** Of the body, whole or not. */
  body: string
  /** Bytes after the end of the answer, those of later pieces included. */
  excess: number
}

/** Reads the pieces as a connection would. They are copied first: the parser moves bytes about. */
export function parse(pieces: readonly Buffer[]): Parsed {
  const parser = new ResponseParser()
  parser.begin()
  const body: Buffer[] = []
  let excess = 0
  for (const piece of pieces) {
    if (parser.ended) excess += piece.length
    else if (!parser.fault) {
      // In a larger buffer, as with a read that does not fill it.
      const bytes = Buffer.concat([piece, Buffer.from('\r\n\r\n0')])
      parser.push(bytes, piece.length)
      body.push(Buffer.from(bytes.subarray(parser.from, parser.to)))
      if (parser.ended) excess += parser.excess
    }
  }
  const { head, fault, ended, endsWithConnection } = parser
  const text = Buffer.concat(body).toString('latin1')
  const whole = head && !fault && (ended || endsWithConnection)
  return {
    answer: whole ? { status: head.status, headers: grouped(Object.entries(head.headers)), body: text } : undefined,
    fault: fault?.message,
    body: text,
    excess
  }
}

/** What Node's own client makes of the same bytes; undefined when it refuses them or waits for more. */
export function parseWithNode(bytes: Buffer): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const socket = new Duplex({
      read() {},
      write: (_chunk, _encoding, done) => {
        done()
        socket.push(bytes)
        socket.push(null)
      }
    })
    const asked = request({ createConnection: () => socket, method: 'POST' })
    asked.on('error', () => resolve(undefined))
    let begun = false
    asked.on('close', () => {
      if (!begun) resolve(undefined)
    })
    asked.on('response', (response) => {
      begun = true
      const body: Buffer[] = []
      response.on('data', (chunk: Buffer) => body.push(chunk))
      response.on('error', () => resolve(undefined))
      response.on('close', () => resolve(undefined))
      response.on('end', () => {
        const { rawHeaders } = response
        const fields = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1]!] as const] : []))
        resolve(
          response.complete
            ? { status: response.statusCode!, headers: grouped(fields), body: Buffer.concat(body).toString('latin1') }
            : undefined
        )
      })
    })
    asked.end()
  })
}

function grouped(fields: Iterable<readonly [string, string | string[] | undefined]>): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null)
  for (const [name, value] of fields) (headers[name.toLowerCase()] ??= []).push(...[value ?? []].flat())
  return headers
}

/** Every way to cut the bytes in two, and one with a piece for each byte. */
export function* cuts(bytes: Buffer): Generator<Buffer[]> {
  for (let at = 0; at <= bytes.length; at++) yield [bytes.subarray(0, at), bytes.subarray(at)]
  yield Array.from(bytes, (byte) => Buffer.from([byte]))
}

/** Cut at these places, in any order and number. */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b)
  return [0, ...sorted].map((from, i) => bytes.subarray(from, sorted[i] ?? bytes.length))
}
