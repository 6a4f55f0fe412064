// The body of a request of the admin listener as it arrives, for the engine to read.
import type { IncomingMessage } from 'node:http'
import type { BodySink, BodySource } from '../../clients/body-source.ts'

/** The body of one request. Nothing is read before somebody receives it. */
export class ArrivingBody implements BodySource {
  readonly #request: IncomingMessage
  #sink: BodySink | undefined

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  receive(sink: BodySink): void {
    const request = this.#request
    if (request.destroyed) return sink.lost()
    this.#sink = sink
    request.on('data', (chunk: Buffer) => this.#sink?.data(chunk))
    request.on('end', () => this.#over()?.end())
    request.on('close', () => this.#over()?.lost())
    // It breaks with its connection, and `close` tells of that.
    request.on('error', () => {})
  }

  pause(): void {
    this.#request.pause()
  }

  resume(): void {
    if (this.#sink) this.#request.resume()
  }

  abandon(): void {
    this.#sink = undefined
    this.#request.pause()
  }

  #over(): BodySink | undefined {
    const sink = this.#sink
    this.#sink = undefined
    return sink
  }
}
