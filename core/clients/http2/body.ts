// The body of one request on an HTTP/2 stream. The flow control of HTTP/2 holds back what is not read.
import type { ServerHttp2Stream } from 'node:http2'
import { free } from '../../bodies/body-memory.ts'
import type { BodySink, BodySource } from '../body-source.ts'

/** The body of one request. One is made per request. */
export class Http2Body implements BodySource {
  readonly #stream: ServerHttp2Stream
  #sink: BodySink | undefined

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream
  }

  receive(sink: BodySink): void {
    const stream = this.#stream
    if (stream.destroyed) return sink.lost()
    this.#sink = sink
    stream.on('data', (chunk: Buffer) => {
      this.#sink?.data(chunk)
      free(chunk)
    })
    stream.on('end', () => this.#over()?.end())
    stream.on('close', () => this.#over()?.lost())
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    if (this.#sink) this.#stream.resume()
  }

  abandon(): void {
    this.#sink = undefined
    this.#stream.pause()
  }

  #over(): BodySink | undefined {
    const sink = this.#sink
    this.#sink = undefined
    return sink
  }
}
