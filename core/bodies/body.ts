// A request body: its members are found without parsing it, and edits are spliced into its bytes.
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

/** A body up to this size is scanned at once, in bytes: that takes less than a millisecond. */
const atOnceBytes = 64 * 1024
/** A body up to this size lies in memory that it may share with others, in bytes. */
const sharedBytes = 32 * 1024
/** How many bytes are checked to be UTF-8 in one step. */
const utf8Bytes = 1024 * 1024

/**
 * The client's body as it came. Immutable. It is kept until the exchange is settled, so that every attempt can send it.
 */
export class RequestBody {
  /** The form as it came, with its files; undefined for any other body. */
  readonly form: Form | undefined
  /** The Content-Type to send to upstreams; undefined when there is no body. */
  readonly contentType: string | undefined
  #bytes: Buffer
  /** Undefined after {@link rest}, until somebody asks. */
  #lens: Lens | undefined

  /** For bytes that have been scanned. Other callers use `json`, `read` or `form`. */
  constructor(bytes: Buffer, lens: Lens, contentType: string | undefined, form?: Form) {
    this.#bytes = bytes
    this.#lens = lens
    this.form = form
    this.contentType = contentType
  }

  /** A JSON body's own bytes. Of a form, JSON of its fields and of what is known of its files. Empty without a body. */
  get bytes(): Buffer {
    return this.#bytes
  }

  /** A lens on these bytes; on an empty object when there is no body. */
  get lens(): Lens {
    return (this.#lens ??= new Lens(this.#bytes))
  }

  /** The members or fields of the request, by name, in either form. */
  get fields(): Fields {
    return this.form ?? this.lens
  }

  /**
   * Called when an answer begins that may go on for hours, during which hardly anybody asks for the body. A small JSON
   * body moves to memory of its own, as it would keep alive what it shares that with, and its members are found again
   * when they are asked for. `held`: what the bytes lie in. Returns what they lie in from now on.
   */
  rest(held: Buffer): Buffer {
    if (held.length > sharedBytes) return held
    const own = Buffer.allocUnsafeSlow(held.length)
    held.copy(own)
    // A byte order mark may lead.
    const from = held.length - this.#bytes.length
    this.#bytes = from === 0 ? own : own.subarray(from)
    this.#lens = undefined
    return own
  }

  /**
   * Scans a JSON body.
   * @throws GatewayError `invalid_json` when the bytes are not one JSON object in UTF-8
   */
  static json(bytes: Buffer): RequestBody {
    return new Reading(bytes).advance(Infinity)!
  }

  /** Scans a JSON body; a large one in turns with others, as a promise. It throws, or rejects, as {@link json} does. */
  static read(bytes: Buffer): RequestBody | Promise<RequestBody> {
    return bytes.length <= atOnceBytes ? RequestBody.json(bytes) : inTurns(new Reading(bytes))
  }

  /** The body for a form that has been read completely. */
  static form(form: Form): RequestBody {
    const bytes = Buffer.from(JSON.stringify(form.describe()))
    return new RequestBody(bytes, new Lens(bytes), form.contentType, form)
  }

  /** The body of every request without one. */
  static readonly none = new RequestBody(Buffer.alloc(0), new Lens(Buffer.from('{}')), undefined)
}

/** A scan of bytes that must be one JSON object in UTF-8. */
class Reading implements Work<RequestBody> {
  readonly #text: Buffer
  readonly #scanning: Scanning
  #lens: Lens | undefined
  /** Why they are not a JSON object. It is thrown only when they are UTF-8, as that error is more telling. */
  #fault: LensError | undefined
  #checked = 0

  constructor(bytes: Buffer) {
    // RFC 8259 §8.1 allows ignoring a byte order mark. It is not sent to upstreams.
    this.#text = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
    this.#scanning = new Scanning(this.#text)
  }

  advance(until: number): RequestBody | undefined {
    if (!this.#lens && !this.#fault && !this.#scan(until)) return undefined
    if (!this.#lens?.isAscii && !this.#checkUtf8(until)) return undefined
    if (this.#lens) return new RequestBody(this.#text, this.#lens, 'application/json')
    throw new GatewayError('invalid_json', `The request body is not a valid JSON object: ${this.#fault!.message}.`)
  }

  /** Returns whether the scan is done. */
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

  /** Returns whether the check is done. */
  #checkUtf8(until: number): boolean {
    const text = this.#text
    while (this.#checked < text.length) {
      let end = Math.min(text.length, this.#checked + utf8Bytes)
      // A step must not end inside a character. No character has more than three such bytes in a row.
      for (let back = 0; back < 3 && end < text.length && (text[end]! & 0xc0) === 0x80; back++) end--
      if (!isUtf8(text.subarray(this.#checked, end)))
        throw new GatewayError('invalid_json', 'The request body is not UTF-8.')
      this.#checked = end
      if (performance.now() >= until && end < text.length) return false
    }
    return true
  }
}

/** The edits of a body for one attempt. */
export class BodyEdit {
  readonly original: RequestBody
  #changes: Map<string, string> | undefined
  /** The members that are left out. */
  #removed: Set<string> | undefined
  #replacement: Buffer | undefined

  constructor(original: RequestBody) {
    this.original = original
  }

  /** Sets a top-level member. An existing value is replaced in place; a new member is put first. */
  set(key: string, value: unknown): void {
    this.setRaw(key, JSON.stringify(value))
  }

  /** Sets a top-level member to a value that is JSON text already. */
  setRaw(key: string, json: string): void {
    this.#changes ??= new Map()
    this.#changes.set(key, json)
    this.#removed?.delete(key)
  }

  /** Leaves out a top-level member of a JSON body. */
  remove(key: string): void {
    this.#changes?.delete(key)
    ;(this.#removed ??= new Set()).add(key)
  }

  /** The parsed value of a top-level member, with the edits so far; undefined when there is none. */
  json(key: string): unknown {
    if (this.#removed?.has(key)) return undefined
    const change = this.#changes?.get(key)
    return change === undefined ? this.#lens.json(key) : JSON.parse(change)
  }

  /** The JSON text of a top-level member, with the edits so far; undefined when there is none. */
  raw(key: string): Buffer | undefined {
    if (this.#removed?.has(key)) return undefined
    const change = this.#changes?.get(key)
    return change === undefined ? this.#lens.slice(key) : Buffer.from(change)
  }

  /** Replaces the whole body. Edits made before are lost; later ones need the bytes to be one JSON object. */
  replace(bytes: Buffer): void {
    this.#replacement = bytes
    this.#changes = this.#removed = undefined
  }

  /** The bytes to send: views of the client's own bytes, with the edits between them. */
  render(): UpstreamBody {
    const { form, contentType, bytes } = this.original
    if (!this.#replacement) {
      if (contentType === undefined) return []
      if (form) return form.render(this.#changes)
    }
    if (this.#removed) {
      const removed = [...this.#removed].map((key): [string, undefined] => [key, undefined])
      return withMembers(this.#lens, new Map([...(this.#changes ?? []), ...removed]))
    }
    return this.#changes ? withMembers(this.#lens, this.#changes) : [this.#replacement ?? bytes]
  }

  get #lens(): Lens {
    return this.#replacement ? new Lens(this.#replacement) : this.original.lens
  }
}
