// A request body: looked into without parsing, and edited by splicing its bytes.
import { isUtf8 } from 'node:buffer'
import { GatewayError } from '../errors.ts'
import { Lens, LensError } from './lens.ts'
import { withMembers } from './splice.ts'

/** The client's body as it came. Immutable; kept until the exchange is settled, so that every attempt can send it again. */
export class RequestBody {
  readonly bytes: Buffer
  /** The top level of a JSON body. An endpoint without a body has an empty object. */
  readonly lens: Lens
  /** Of the bytes, as upstreams are told it; undefined when there are none. */
  readonly contentType: string | undefined

  private constructor(bytes: Buffer, lens: Lens, contentType: string | undefined) {
    this.bytes = bytes
    this.lens = lens
    this.contentType = contentType
  }

  /** @throws GatewayError `invalid_json` when the bytes are not one JSON object in UTF-8 */
  static json(bytes: Buffer): RequestBody {
    // RFC 8259 §8.1: a byte order mark may be ignored; upstreams are never sent one.
    const text = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
    try {
      const lens = new Lens(text)
      if (lens.isAscii || isUtf8(text)) return new RequestBody(text, lens, 'application/json')
    } catch (error) {
      if (!(error instanceof LensError)) throw error
      if (isUtf8(text)) throw new GatewayError('invalid_json', `The request body is not a valid JSON object: ${error.message}.`)
    }
    throw new GatewayError('invalid_json', 'The request body is not UTF-8.')
  }

  /** The body of a request that has none. */
  static readonly none = new RequestBody(Buffer.alloc(0), new Lens(Buffer.from('{}')), undefined)
}

/** Changes to a body on its way to one upstream. */
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

  /** The bytes to send, in pieces: views of the client's own buffer with what was changed between them. */
  render(): Buffer[] {
    if (this.#replacement) return [this.#replacement]
    if (this.original.contentType === undefined) return []
    return this.#changes ? withMembers(this.original.lens, this.#changes) : [this.original.bytes]
  }
}
