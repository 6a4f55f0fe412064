// The answer to a request of the playground: the engine writes it as it writes those to clients.
import type { ServerResponse } from 'node:http'
import { Answer } from '../../clients/answer.ts'
import type { Front } from '../../clients/client.ts'
import type { HeaderLines } from '../../wire/response-head.ts'

/** Headers by which an upstream could do something to the pages of this listener, or to the browser that shows them. */
const kept =
  /^(?:set-cookie|clear-site-data|www-authenticate|content-security-policy.*|access-control-.*|refresh|link)$/i

/** What every answer has: whatever an upstream sends, a browser that opens it runs nothing of it here. */
const added = [
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', "default-src 'none'; sandbox"],
  ['cross-origin-resource-policy', 'same-origin']
] as const

/** Writes an answer of the engine to a request of the admin listener. One is made per request. */
export class PlaygroundResponse extends Answer {
  readonly #response: ServerResponse
  readonly #front: Front

  constructor(front: Front, response: ServerResponse) {
    super(front)
    this.#front = front
    this.#response = response
    response.once('close', () => this.lost())
    response.on('drain', () => this.onDrain?.())
    // It breaks with its connection, and `close` tells of that.
    response.on('error', () => {})
  }

  reply(status: number, headers: HeaderLines, body: Buffer): void {
    if (this.over) return
    const length = status === 204 || status === 304 ? [] : ['content-length', String(body.length)]
    this.#begin(status, headers, length)
    this.end(body)
  }

  head(status: number, headers: HeaderLines): void {
    if (this.over || this.headSent) return
    this.#begin(status, headers, [])
    this.#response.flushHeaders()
  }

  write(bytes: Buffer): boolean {
    return this.over || bytes.length === 0 || this.#response.write(bytes)
  }

  end(bytes?: Buffer): void {
    if (this.over) return
    this.release()
    this.#response.end(bytes)
    // Whoever does not read the end is not waited for.
    this.#response.setTimeout(this.#front.clientStall, () => this.#response.destroy())
  }

  cut(last?: Buffer): void {
    if (this.over) return
    this.gone = true
    this.release()
    // Without its last chunk the answer cannot look complete.
    if (last && this.headSent) this.#response.write(last, () => this.#response.destroy())
    else this.#response.destroy()
  }

  #begin(status: number, headers: HeaderLines, length: readonly string[]): void {
    const pairs = headers.pairs()
    const shown = pairs.flatMap((name, at) => (at % 2 === 1 || kept.test(name) ? [] : [name, pairs[at + 1]!]))
    this.headSent = true
    this.#response.writeHead(status, [...shown, ...added.flat(), ...length])
  }
}
