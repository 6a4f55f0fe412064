// A request body: read once within bounds, looked into without parsing, and edited by splicing its bytes.
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { GatewayError } from './errors.ts'
import { Lens, LensError } from './lens.ts'
import { withMembers } from './splice.ts'

/** The client's body as it came. Immutable; kept until the exchange is settled, so that every attempt can send it again. */
export class RequestBody {
  readonly bytes: Buffer
  /** The top level of a JSON body. An endpoint without a body has an empty object. */
  readonly lens: Lens

  private constructor(bytes: Buffer, lens: Lens) {
    this.bytes = bytes
    this.lens = lens
  }

  /** @throws GatewayError `invalid_json` when the bytes are not one JSON object in UTF-8 */
  static json(bytes: Buffer): RequestBody {
    // RFC 8259 §8.1: a byte order mark may be ignored; upstreams are never sent one.
    const text = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
    if (!isUtf8(text)) throw new GatewayError('invalid_json', 'The request body is not UTF-8.')
    try {
      return new RequestBody(text, new Lens(text))
    } catch (error) {
      if (!(error instanceof LensError)) throw error
      throw new GatewayError('invalid_json', `The request body is not a valid JSON object: ${error.message}.`)
    }
  }

  /** The body of a request that has none. */
  static readonly none = RequestBody.json(Buffer.from('{}'))
}

/** Changes to a body on its way to one upstream. The bytes are put together when the attempt is sent, once. */
export class BodyEdit {
  readonly original: RequestBody
  #changes: Map<string, string> | undefined
  #replacement: Buffer | undefined

  constructor(original: RequestBody) {
    this.original = original
  }

  /** Sets a top-level member: its value is replaced in place, a new one goes first. */
  set(key: string, value: unknown): void {
    this.setRaw(key, JSON.stringify(value))
  }

  /** Likewise, with the value as JSON text. */
  setRaw(key: string, json: string): void {
    this.#changes ??= new Map()
    this.#changes.set(key, json)
  }

  /** Sends other bytes altogether; edits made before or after are applied to nothing. */
  replace(bytes: Buffer): void {
    this.#replacement = bytes
  }

  /** The bytes to send: the client's own buffer when nothing was changed. */
  render(): Buffer {
    if (this.#replacement) return this.#replacement
    return this.#changes ? withMembers(this.original.lens, this.#changes) : this.original.bytes
  }
}

/** Bounds for reading a body. */
export interface BodyLimits {
  /** Bytes of one body. */
  size: number
  /** Milliseconds for the body, plus a second for each KiB announced. */
  time: number
}

/** Bytes of request bodies that may be held at one time, by all exchanges together. */
export class BodyMemory {
  readonly limit: number
  used = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** @throws GatewayError `overloaded` when the bytes do not fit */
  take(bytes: number): void {
    if (this.used + bytes > this.limit) {
      throw new GatewayError('overloaded', 'Too many request bodies are being handled. Try again shortly.', { retryAfterMs: 1000 })
    }
    this.used += bytes
  }

  give(bytes: number): void {
    this.used -= bytes
  }
}

/** A body that has been read, and the bytes it occupies in the {@link BodyMemory}; whoever gets it gives them back. */
export interface ReadBody {
  bytes: Buffer
  held: number
}

/**
 * Reads a whole body of at most `limits.size` bytes. With a `content-length` the bytes are reserved before the first
 * is read; without one as they come.
 * @throws GatewayError `request_too_large`, `overloaded`, `request_timeout`, or `client_closed` when it ends early
 */
export function readBody(source: Readable, declared: number | undefined, limits: BodyLimits, memory: BodyMemory): Promise<ReadBody> {
  return new Promise((resolve, reject) => {
    const tooLarge = (): GatewayError =>
      new GatewayError('request_too_large', `The request body is larger than ${limits.size} bytes, the limit for this kind of request.`)
    if (declared !== undefined && declared > limits.size) return reject(tooLarge())
    let held = 0
    const hold = (bytes: number): void => {
      memory.take(bytes)
      held += bytes
    }
    try {
      hold(declared ?? 0)
    } catch (error) {
      return reject(error as GatewayError)
    }
    const chunks: Buffer[] = []
    let length = 0
    const timer = setTimeout(
      () => fail(new GatewayError('request_timeout', 'The request body did not arrive in time.')),
      limits.time + (declared ?? limits.size) / 1.024
    )
    const stop = (): void => {
      clearTimeout(timer)
      source.off('data', onData).off('end', onEnd).off('error', onLost).off('close', onLost)
    }
    const fail = (error: GatewayError): void => {
      stop()
      memory.give(held)
      source.on('error', () => {})
      source.pause()
      reject(error)
    }
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      if (length > limits.size) return fail(tooLarge())
      if (length > held) {
        try {
          hold(Math.max(chunk.length, Math.min(length, limits.size - held)))
        } catch (error) {
          return fail(error as GatewayError)
        }
      }
      chunks.push(chunk)
    }
    const onEnd = (): void => {
      stop()
      if (held > length) {
        memory.give(held - length)
        held = length
      }
      resolve({ bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length), held })
    }
    const onLost = (): void => fail(new GatewayError('client_closed', 'The client left before its request body was complete.'))
    source.on('data', onData).on('end', onEnd).on('error', onLost).on('close', onLost)
  })
}
