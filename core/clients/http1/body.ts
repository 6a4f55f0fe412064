// The body of one request on an HTTP/1.x connection: passes what the connection reads to the sink.
import type { BodySink, BodySource } from '../body-source.ts'

/** The connection, as the body of a request sees it. */
export interface BodyCarrier {
  /** The body, which is that of the current request, wants its bytes. */
  wanted(body: Http1Body): void
}

/** The body of one request. One is made per request that has a body. */
export class Http1Body implements BodySource {
  /** True when the whole body was received. */
  complete = false
  /**
   * True while the client waits for `100 Continue`. A client that gets a refusal instead may or may not send its body,
   * and the connection could not tell that body from the next request.
   */
  awaited: boolean
  readonly #connection: BodyCarrier
  #sink: BodySink | undefined
  #discarded = false
  #paused = false
  #lost = false

  constructor(connection: BodyCarrier, awaited: boolean) {
    this.#connection = connection
    this.awaited = awaited
  }

  receive(sink: BodySink): void {
    if (this.#lost || this.#discarded) return sink.lost()
    this.#sink = sink
    this.#connection.wanted(this)
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (this.#sink) this.#connection.wanted(this)
  }

  abandon(): void {
    this.#sink = undefined
  }

  /** True when the bytes can be read now, to be given to the sink or thrown away. */
  get flowing(): boolean {
    return (this.#sink !== undefined && !this.#paused) || this.#discarded
  }

  /** Throws away what is left of the body. */
  discard(): void {
    this.#sink = undefined
    this.#discarded = true
  }

  /** The memory that the sink offers for the next bytes, if any. */
  get room(): Buffer | undefined {
    return this.#sink?.room
  }

  /** Called by the connection. */
  data(chunk: Buffer): void {
    this.#sink?.data(chunk)
  }

  /** Called by the connection. */
  end(): void {
    const sink = this.#sink
    this.complete = true
    // The answer may go on for hours, and needs nothing of what has read the request.
    this.#sink = undefined
    sink?.end()
  }

  /** Called by the connection when it broke. */
  lose(): void {
    const sink = this.#sink
    this.#lost = true
    this.#sink = undefined
    sink?.lost()
  }
}
