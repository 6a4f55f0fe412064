// Where the bytes of a request body come from: straight from the parser of HTTP/1.x, or from a stream.
import { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** Takes a body as it arrives. After `end` or `lost` it hears no more. */
export interface BodySink {
  data(chunk: Buffer): void
  end(): void
  /** The connection broke, or the request was given up, before the end. */
  lost(): void
}

/**
 * A request of Node's server whose body can go past its stream. Most bodies arrive with their head, and the queue, the
 * events and the turns of the loop by which a stream hands one piece on cost more than all else that is done with it.
 */
export class Http1Request extends IncomingMessage {
  #sink: BodySink | undefined
  #passed = false

  /** From now on everything goes to `sink`, until {@link restore}. False when that is too late: something waits in the stream. */
  divert(sink: BodySink): boolean {
    if (this.complete || this.destroyed || this.readableLength > 0) return false
    this.#sink = sink
    // Node hears that the body is being read, and a client that waits to be asked for it is.
    this._read(0)
    return true
  }

  /** What still comes goes into the stream again. */
  restore(): void {
    this.#sink = undefined
  }

  /** Called by Node with what the parser found, and null at the end. */
  override push(chunk: Buffer | null): boolean {
    const sink = this.#sink
    if (!sink) return super.push(chunk)
    if (chunk) sink.data(chunk)
    else {
      this.#sink = undefined
      this.#passed = true
      sink.end()
    }
    return true
  }

  // Node lets go of a request when its body has been read to the end, also past the stream. Types know no accessor here.
  static {
    const { get } = Object.getOwnPropertyDescriptor(Readable.prototype, 'readableEnded')!
    Object.defineProperty(this.prototype, 'readableEnded', {
      get(this: Http1Request): boolean {
        return this.#passed || get!.call(this)
      }
    })
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const sink = this.#sink
    this.#sink = undefined
    super._destroy(error, callback)
    sink?.lost()
  }
}

/** Gives a body to `sink` in the shortest way there is. The function returned ends that; what comes later is the stream's. */
export function receive(source: Readable, sink: BodySink): () => void {
  if (source instanceof Http1Request && source.divert(sink)) return () => source.restore()
  const leave = (): void => void source.off('data', onData).off('end', onEnd).off('error', onLost).off('close', onLost)
  const onData = (chunk: Buffer): void => sink.data(chunk)
  const onEnd = (): void => {
    leave()
    sink.end()
  }
  const onLost = (): void => {
    leave()
    sink.lost()
  }
  source.on('data', onData).on('end', onEnd).on('error', onLost).on('close', onLost)
  return leave
}
