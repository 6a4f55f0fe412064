// Decodes an upstream body that came compressed although `identity` was asked for.
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import type { Transform } from 'node:stream'

const decoders = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress]
])

/** Where decoded bytes go. */
export interface DecoderSink {
  data(chunk: Buffer): void
  end(): void
  error(cause: Error): void
}

/**
 * Turns encoded chunks into decoded ones, each as soon as it can be: an event flushed by the upstream passes at once.
 * Holds at most one buffer's worth, so a small body that unfolds into a huge one costs time and no memory.
 */
export class Decoder {
  readonly #stream: Transform

  private constructor(stream: Transform, sink: DecoderSink) {
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => sink.data(chunk))
    stream.on('end', () => sink.end())
    stream.on('error', (cause) => sink.error(cause))
  }

  /** Undefined for an encoding that is not known, or several on top of each other. */
  static for(encoding: string, sink: DecoderSink): Decoder | undefined {
    const create = decoders.get(encoding.trim().toLowerCase())
    return create && new Decoder(create(), sink)
  }

  /** False when enough is waiting: stop reading until `onReady` is called, once. */
  write(chunk: Buffer, onReady: () => void): boolean {
    if (this.#stream.write(chunk)) return true
    this.#stream.once('drain', onReady)
    return false
  }

  /** No more encoded bytes. */
  end(): void {
    this.#stream.end()
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    this.#stream.resume()
  }

  /** Nothing more is wanted. */
  destroy(): void {
    this.#stream.destroy()
  }
}
