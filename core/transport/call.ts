// A request under way: its connection, and a second one when the first was given up by the upstream as it was reused.
import type { UpstreamBody } from '../bodies/upload.ts'
import type { Answering, Carrier } from './carrier.ts'
import { ConnectionLost, describe } from './failure.ts'
import type { Pool, Taker } from './pool.ts'
import type { UpstreamCall, UpstreamHeaders, UpstreamRequest, UpstreamSink } from './transport.ts'

/**
 * A connection that its upstream closes for idleness in the very moment of reuse fails the request unseen. When nothing
 * of an answer has come, and within this time of sending, that is taken to be what happened, and the request is sent
 * once more, on a new connection (RFC 9112, section 9.3.1).
 */
const staleMs = 500

const nothing: UpstreamBody = []

/** One per attempt. */
export class Call implements UpstreamCall, Answering, Taker {
  /** What is sent; forgotten when an answer has begun. */
  head: string
  body: UpstreamBody
  readonly #sink: UpstreamSink
  readonly #pool: Pool
  readonly #sentAt = performance.now()
  /** Undefined once the answer has ended or nobody wants it. */
  #connection: Carrier | undefined
  #isSent = false
  #again = false
  #headed = false
  #paused = false

  /** Sends it. */
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
    // Until the request is sent it is read from, to see whether anything comes.
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
