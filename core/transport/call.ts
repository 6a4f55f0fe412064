// One request and its answer. Uses a second connection when the upstream closed a reused one at the moment of sending.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { Answering, Carrier } from './carrier.ts'
import { ConnectionLost, describe } from './failure.ts'
import type { Pool, Taker } from './pool.ts'
import type { UpstreamCall, UpstreamHeaders, UpstreamRequest, UpstreamSink } from './transport.ts'

/**
 * When an upstream closes an idle connection at the moment of its reuse, it has not seen the request. That is assumed
 * when the connection is lost within this time of sending, before any byte of an answer. The request is then sent once
 * more, on a new connection (RFC 9112 §9.3.1).
 */
const staleMs = 500

const nothing: UpstreamBody = []

/** One request under way. One is made per attempt. */
export class Call implements UpstreamCall, Answering, Taker {
  /** The request. Both are cleared when an answer begins, to free the memory. */
  head: string
  body: UpstreamBody
  readonly #sink: UpstreamSink
  readonly #pool: Pool
  readonly #sentAt = performance.now()
  /** Undefined once the answer has ended or was aborted. */
  #connection: Carrier | undefined
  #isSent = false
  #again = false
  #headed = false
  #paused = false

  /** Sends the request, on a kept connection when there is one. */
  constructor(pool: Pool, head: string, { body, once }: Pick<UpstreamRequest, 'body' | 'once'>, sink: UpstreamSink) {
    this.#pool = pool
    this.head = head
    this.body = body
    this.#sink = sink
    this.#connection = once ? undefined : pool.take(this.#sentAt, this)
    if (!this.#connection) this.#send(pool.connect())
  }

  proved(): void {
    const connection = this.#connection
    if (!connection) return
    if (connection.usable(this.#sentAt)) this.#send(connection)
    else this.#send(this.#pool.connect())
  }

  get unsent(): boolean {
    return !this.#headed && (!this.#isSent || this.#connection?.unsent === true)
  }

  pause(): void {
    this.#paused = true
    // Until the request is sent, the connection must be read, to notice whether anything comes over it.
    if (this.#isSent) this.#connection?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#connection?.resume()
  }

  abort(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.destroy()
  }

  onHead(status: number, headers: UpstreamHeaders): void {
    this.#headed = true
    this.head = ''
    this.body = nothing
    this.#sink.onHead(status, headers)
  }

  get borrows(): boolean {
    return this.#sink.borrows === true
  }

  onData(chunk: Buffer): void {
    this.#sink.onData(chunk)
  }

  onEnd(): void {
    this.#connection = undefined
    this.#sink.onEnd()
  }

  onLost(cause: Error, unheard: boolean): void {
    this.#connection = undefined
    if (unheard && !this.#again && cause instanceof ConnectionLost && performance.now() - this.#sentAt <= staleMs) {
      this.#again = true
      this.#send(this.#pool.connect())
    } else this.#sink.onError(describe(cause, this.#headed))
  }

  #send(connection: Carrier): void {
    this.#connection = connection
    this.#isSent = true
    if (this.#paused) connection.pause()
    connection.send(this)
  }
}
