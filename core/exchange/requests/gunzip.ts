// Request bodies that come gzipped, unpacked on their way from the connection to whoever reads them.
import { createGunzip } from 'node:zlib'
import type { BodySink, BodySource } from '../../clients/body-source.ts'
import { bodyTooLarge, GatewayError } from '../../errors.ts'

/** What is unpacked at one time, on a thread that is not the event loop's. */
const pieceBytes = 64 * 1024

/**
 * The body behind another one. Who reads it bounds what comes out, and gives it up as soon as that is too much; what
 * goes in without anything coming out is bounded here.
 */
export class Gunzipped implements BodySource {
  /** Why the body ended early, when that was not the client's leaving. */
  fault: GatewayError | undefined
  readonly #source: BodySource
  readonly #most: number
  readonly #gunzip = createGunzip({ chunkSize: pieceBytes })
  #taken = 0
  #sink: BodySink | undefined

  /** `most`: bytes of the packed body. */
  constructor(source: BodySource, most: number) {
    this.#source = source
    this.#most = most
  }

  receive(sink: BodySink): void {
    const gunzip = this.#gunzip
    this.#sink = sink
    gunzip.on('data', (chunk: Buffer) => this.#sink?.data(chunk))
    gunzip.on('end', () => this.#over()?.end())
    gunzip.on('error', () =>
      this.#fail(
        new GatewayError(
          'invalid_request',
          'The request body is not valid gzip, which its Content-Encoding says it is.'
        )
      )
    )
    gunzip.on('drain', () => this.#source.resume())
    this.#source.receive({
      data: (chunk) => this.#take(chunk),
      end: () => gunzip.end(),
      lost: () => {
        gunzip.destroy()
        this.#over()?.lost()
      }
    })
  }

  pause(): void {
    this.#gunzip.pause()
  }

  resume(): void {
    this.#gunzip.resume()
  }

  abandon(): void {
    this.#sink = undefined
    this.#gunzip.destroy()
    this.#source.abandon()
  }

  #take(chunk: Buffer): void {
    if (!this.#sink) return
    this.#taken += chunk.length
    if (this.#taken > this.#most) return this.#fail(bodyTooLarge(this.#most, 'limits.json_body'))
    // The chunk is valid during this call only.
    if (!this.#gunzip.write(Buffer.from(chunk))) this.#source.pause()
  }

  #fail(fault: GatewayError): void {
    const sink = this.#over()
    if (!sink) return
    this.fault = fault
    sink.lost()
  }

  #over(): BodySink | undefined {
    const sink = this.#sink
    this.#sink = undefined
    return sink
  }
}
