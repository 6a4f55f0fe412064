// A request body: looked into without parsing, and edited by splicing its bytes.
import { isUtf8 } from 'node:buffer'
import { GatewayError } from '../errors.ts'
import type { Fields } from './fields.ts'
import type { Form } from './form.ts'
import { LensError, Scanning } from './json/scan.ts'
import { Lens } from './lens.ts'
import { withMembers } from './splice.ts'
import { inTurns } from './turns.ts'
import type { Work } from './turns.ts'
import type { UpstreamBody } from './upload.ts'

/** A body up to this size is looked into at once: the worst of them takes less than a millisecond. */
const atOnceBytes = 64 * 1024
/** What is checked to be UTF-8 at one time. */
const utf8Bytes = 1024 * 1024

/**
 * The client's body as it came. Immutable; kept until the exchange is settled, so that every attempt can send it again.
 */
export class RequestBody {
  /** JSON: the body, or of a form its fields and what is known of its files. Nothing where there is no body. */
  readonly bytes: Buffer
  /** The top level of these bytes; an empty object where there is no body. */
  readonly lens: Lens
  /** What the request says of itself, by name. */
  readonly fields: Fields
  /** The form as it came, with its files; undefined when the body is none. */
  readonly form: Form | undefined
  /** Of the bytes, as upstreams are told it; undefined when there are none. */
  readonly contentType: string | undefined

  /** Of bytes that were looked into. */
  constructor(bytes: Buffer, lens: Lens, contentType: string | undefined, form?: Form) {
    this.bytes = bytes
    this.lens = lens
    this.form = form
    this.fields = form ?? lens
    this.contentType = contentType
  }

  /** @throws GatewayError `invalid_json` when the bytes are not one JSON object in UTF-8 */
  static json(bytes: Buffer): RequestBody {
    return new Reading(bytes).advance(Infinity)!
  }

  /** Likewise, in turns with other large bodies: the promise of one rejects with what {@link json} throws. */
  static read(bytes: Buffer): RequestBody | Promise<RequestBody> {
    return bytes.length <= atOnceBytes ? RequestBody.json(bytes) : inTurns(new Reading(bytes))
  }

  /** A form that was read whole. */
  static form(form: Form): RequestBody {
    const bytes = Buffer.from(JSON.stringify(form.describe()))
    return new RequestBody(bytes, new Lens(bytes), form.contentType, form)
  }

  /** The body of a request that has none. */
  static readonly none = new RequestBody(Buffer.alloc(0), new Lens(Buffer.from('{}')), undefined)
}

/** Looks into bytes: they must be a JSON object, and UTF-8. */
class Reading implements Work<RequestBody> {
  readonly #text: Buffer
  readonly #scanning: Scanning
  #lens: Lens | undefined
  /** Why they are no JSON object, said when it is known that they are UTF-8. */
  #fault: LensError | undefined
  #checked = 0

  constructor(bytes: Buffer) {
    // RFC 8259 §8.1: a byte order mark may be ignored; upstreams are never sent one.
    this.#text = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
    this.#scanning = new Scanning(this.#text)
  }

  advance(until: number): RequestBody | undefined {
    if (!this.#lens && !this.#fault && !this.#scan(until)) return undefined
    if (!this.#lens?.isAscii && !this.#checkUtf8(until)) return undefined
    if (this.#lens) return new RequestBody(this.#text, this.#lens, 'application/json')
    throw new GatewayError('invalid_json', `The request body is not a valid JSON object: ${this.#fault!.message}.`)
  }

  /** Whether it is done. */
  #scan(until: number): boolean {
    try {
      const found = this.#scanning.advance(until)
      if (found) this.#lens = new Lens(this.#text, found)
      return found !== undefined
    } catch (error) {
      if (!(error instanceof LensError)) throw error
      this.#fault = error
      return true
    }
  }

  /** Whether it is done. */
  #checkUtf8(until: number): boolean {
    const text = this.#text
    while (this.#checked < text.length) {
      let end = Math.min(text.length, this.#checked + utf8Bytes)
      // Not in the midst of a character; of more such bytes in a row there is no character.
      for (let back = 0; back < 3 && end < text.length && (text[end]! & 0xc0) === 0x80; back++) end--
      if (!isUtf8(text.subarray(this.#checked, end)))
        throw new GatewayError('invalid_json', 'The request body is not UTF-8.')
      this.#checked = end
      if (performance.now() >= until && end < text.length) return false
    }
    return true
  }
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

  /** The present value of a top-level member, parsed; undefined when there is none. */
  json(key: string): unknown {
    const change = this.#changes?.get(key)
    return change === undefined ? this.#lens.json(key) : JSON.parse(change)
  }

  /** Sends other bytes altogether: one JSON object, or no edits may follow. Edits made before are gone. */
  replace(bytes: Buffer): void {
    this.#replacement = bytes
    this.#changes = undefined
  }

  /** What is sent: views of the client's own bytes with what was changed between them. */
  render(): UpstreamBody {
    const { form, contentType, bytes } = this.original
    if (!this.#replacement) {
      if (contentType === undefined) return []
      if (form) return form.render(this.#changes)
    }
    return this.#changes ? withMembers(this.#lens, this.#changes) : [this.#replacement ?? bytes]
  }

  get #lens(): Lens {
    return this.#replacement ? new Lens(this.#replacement) : this.original.lens
  }
}
