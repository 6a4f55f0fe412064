// A server that answers as a test says at each moment: a token server, a metadata server, or an upstream that looks at
// credentials.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** A request with its whole body. */
export interface Asked {
  method: string
  /** As in the request line. */
  target: string
  headers: IncomingHttpHeaders
  body: Buffer
  /** The fields of a body that is a form. */
  readonly form: Readonly<Record<string, string>>
}

/** An answer: JSON, or a text as it is. */
export interface Answer {
  status?: number
  headers?: Readonly<Record<string, string>>
  body: unknown
}

/** What to answer; `hang` for nothing at all. */
export type Answering = (asked: Asked) => Answer | 'hang' | Promise<Answer>

/** A running server. */
export interface TokenServer {
  /** Without a slash at its end. */
  readonly url: string
  readonly host: string
  /** All requests in the order of arrival. */
  readonly asked: Asked[]
  /** May be replaced at any time. */
  answering: Answering
}

/** Starts a server on a free loopback port; it is closed when the test is over. */
export async function tokenServer(t: Test, answering: Answering): Promise<TokenServer> {
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', async () => {
      const body = Buffer.concat(pieces)
      const one: Asked = {
        method: request.method!,
        target: request.url!,
        headers: request.headers,
        body,
        get form() {
          return Object.fromEntries(new URLSearchParams(body.toString()))
        }
      }
      asked.push(one)
      const answer = await running.answering(one)
      if (answer === 'hang') return
      const isText = typeof answer.body === 'string'
      response.writeHead(answer.status ?? 200, {
        'content-type': isText ? 'text/html' : 'application/json',
        ...answer.headers
      })
      response.end(isText ? answer.body : JSON.stringify(answer.body))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const running: TokenServer = { url: `http://${host}`, host, asked, answering }
  return running
}

/** Gives tokens that live for so many seconds; `next` makes the n-th, counted from 1. */
export function tokens(
  seconds: number,
  next: (n: number) => string = (n) => `token-number-${n}`
): (asked: Asked) => Answer {
  let n = 0
  return () => ({ body: { access_token: next(++n), token_type: 'Bearer', expires_in: seconds } })
}
