// The body of one request on an HTTP/1.x connection: between what the connection reads and whoever wants it.
import type { BodySink, BodySource } from '../body-source.ts'

/** The connection as the body of its request sees it. */
export interface BodyCarrier {
  /** The bytes of this body are asked for, which is the request under way. */
  wanted(body: Http1Body): void
}

/** Made for a request that has one. */
export class Http1Body implements BodySource {
  /** It was received to its end. */
  complete = false
  /**
   * The client waits to be asked for it. One that is refused may send it all the same, and nobody could tell that from
   * its next request.
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

  /** Somebody takes what comes, if only to throw it away. */
  get flowing(): boolean {
    return (this.#sink !== undefined && !this.#paused) || this.#discarded
  }

  /** Nobody will want it any more. */
  discard(): void {
    this.#sink = undefined
    this.#discarded = true
  }

  /** Where the next of it is wanted, if anywhere. */
  get room(): Buffer | undefined {
    return this.#sink?.room
  }

  /** Called by the connection. */
  data(chunk: Buffer): void {
    this.#sink?.data(chunk)
  }

  /** Called by the connection. */
  end(): void {
    this.complete = true
    this.#sink?.end()
  }

  /** Called by the connection when it broke. */
  lose(): void {
    const sink = this.#sink
    this.#lost = true
    this.#sink = undefined
    sink?.lost()
  }
}
