// Finds the parts of a form with files (RFC 7578, RFC 2046 §5.1) in bytes that come in any pieces, and copies none of a
// file.
import { FormError, readPartHead } from './part-head.ts'
import type { PartHead } from './part-head.ts'

/** A part of a form, and where its content lies in the form's bytes. */
export interface Part extends PartHead {
  from: number
  /** So far, until the part has ended. */
  to: number
}

/** Told of the content of files as it comes, in pieces. */
export type FileListener = (file: Part, bytes: Buffer) => void

/** Bytes of one part's head. */
const headBytes = 16 * 1024
/** More than any client sends; each costs memory. Bytes are of one field, and of all. */
const most = { fields: 256, files: 64, field: 1024 * 1024, text: 2 * 1024 * 1024 }
/** By as many bytes a delimiter is looked for, until so many others in a chunk have begun with them too. */
const signBytes = 6
const mostMisses = 32
const headEnd = Buffer.from('\r\n\r\n')
const nothing = Buffer.alloc(0)
const [cr, lf, dash, space, tab] = [13, 10, 45, 32, 9]

/**
 * Reads one form. It is strict where two readers could see different parts: nothing stands before the first delimiter
 * or behind the last, each ends its line, and none stands in a head or where a content begins.
 */
export class Multipart {
  /** In the order of the form. */
  readonly parts: Part[] = []
  readonly #delimiter: Buffer
  /** Its beginning. */
  readonly #sign: Buffer
  readonly #onFile: FileListener | undefined
  #state: 'opening' | 'content' | 'line end' | 'head' | 'over' = 'opening'
  /** Bytes before the chunk that is read. */
  #before = 0
  /** How much of a delimiter without its line end has come, where a content or the form begins. */
  #opened = 0
  /** The end of what came, in which a delimiter may have begun. */
  #carry: Buffer = nothing
  /** What of a line end, or of the end of the form, has come behind a delimiter. */
  #last = 0
  /** Where heads are put together. */
  #head: Buffer | undefined
  #headLength = 0
  #part: Part | undefined
  #fields = 0
  /** Bytes of all fields that have ended. */
  #text = 0

  constructor(boundary: string, onFile?: FileListener) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
    this.#sign = this.#delimiter.subarray(0, signBytes)
    this.#onFile = onFile
  }

  /**
   * Looks at the bytes during the call only. @throws FormError when they cannot belong to a form; none may follow then
   */
  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#state === 'content') at = this.#readContent(chunk, at)
      else if (this.#state === 'opening') at = this.#readOpening(chunk, at)
      else if (this.#state === 'head') at = this.#readHead(chunk, at)
      else if (this.#state === 'line end') this.#readLineEnd(chunk[at++]!)
      else if (!blank(chunk[at++]!)) throw new FormError('there is something behind its last delimiter')
    }
    this.#before += chunk.length
  }

  /** No more bytes come. @throws FormError when the form is not at its end */
  end(): void {
    if (this.#state !== 'over') throw new FormError('it ends before its last delimiter')
  }

  #readOpening(chunk: Buffer, from: number): number {
    const delimiter = this.#delimiter
    let at = from
    while (at < chunk.length && chunk[at] === delimiter[2 + this.#opened]) {
      at++
      if (2 + ++this.#opened < delimiter.length) continue
      if (this.#part) throw new FormError('a delimiter stands where the content of a part should begin')
      this.#delimited()
      return at
    }
    if (at === chunk.length) return at
    if (!this.#part) throw new FormError('it does not begin with its delimiter')
    this.#content(delimiter.subarray(2, 2 + this.#opened))
    this.#state = 'content'
    return at
  }

  #readContent(chunk: Buffer, from: number): number {
    const delimiter = this.#delimiter
    const carry = this.#carry
    this.#carry = nothing
    if (carry.length > 0) {
      const text = Buffer.concat([carry, chunk.subarray(from, from + delimiter.length - 1)])
      const found = text.indexOf(delimiter)
      if (found !== -1) {
        this.#content(text.subarray(0, found))
        this.#delimited()
        return from + found + delimiter.length - carry.length
      }
      if (chunk.length - from < delimiter.length - 1) {
        this.#keep(text)
        return chunk.length
      }
      this.#content(carry)
    }
    const found = this.#find(chunk, from)
    if (found === -1) {
      this.#keep(chunk.subarray(from))
      return chunk.length
    }
    this.#content(chunk.subarray(from, found))
    this.#delimited()
    return found + delimiter.length
  }

  /** Where the delimiter stands. Node looks for a few bytes many at a time, for more than six one after the other. */
  #find(chunk: Buffer, from: number): number {
    const delimiter = this.#delimiter
    let at = chunk.indexOf(this.#sign, from)
    for (let misses = 0; at !== -1; at = chunk.indexOf(this.#sign, at + 1)) {
      if (chunk.compare(delimiter, 0, delimiter.length, at, Math.min(chunk.length, at + delimiter.length)) === 0)
        return at
      if (++misses === mostMisses) return chunk.indexOf(delimiter, at + 1)
    }
    return -1
  }

  /** Takes content of which only the end may belong to a delimiter. */
  #keep(text: Buffer): void {
    const begin = text.indexOf(cr, Math.max(0, text.length - this.#delimiter.length + 1))
    if (begin !== -1) this.#carry = Buffer.from(text.subarray(begin))
    this.#content(begin === -1 ? text : text.subarray(0, begin))
  }

  #content(bytes: Buffer): void {
    const part = this.#part!
    part.to += bytes.length
    if (part.filename !== undefined) {
      if (bytes.length > 0) this.#onFile?.(part, bytes)
      return
    }
    const length = part.to - part.from
    if (length > most.field) throw new FormError('a field of it is longer than 1 MiB')
    if (this.#text + length > most.text) throw new FormError('its fields are longer than 2 MiB together')
  }

  /** A delimiter has come. */
  #delimited(): void {
    const part = this.#part
    if (part && part.filename === undefined) this.#text += part.to - part.from
    this.#last = 0
    this.#state = 'line end'
  }

  #readLineEnd(byte: number): void {
    const last = this.#last
    this.#last = byte
    if (last === 0 && (byte === cr || byte === dash)) return
    if (last === cr && byte === lf) {
      this.#headLength = 0
      this.#state = 'head'
    } else if (last === dash && byte === dash) this.#state = 'over'
    else throw new FormError('there is something behind a delimiter in its line')
  }

  /** Heads are copied: they are short, and may come in pieces. */
  #readHead(chunk: Buffer, from: number): number {
    const head = (this.#head ??= Buffer.allocUnsafe(headBytes))
    const before = this.#headLength
    const length = before + chunk.copy(head, before, from)
    const end = head.subarray(0, length).indexOf(headEnd, Math.max(0, before - headEnd.length + 1))
    if (end !== -1) {
      const at = from + end + headEnd.length - before
      this.#begin(head.subarray(0, end), this.#before + at)
      return at
    }
    if (length === headBytes) throw new FormError('the head of a part is longer than 16 KiB')
    this.#headLength = length
    return chunk.length
  }

  #begin(bytes: Buffer, from: number): void {
    const delimiter = this.#delimiter
    if (bytes.includes(delimiter) || bytes.indexOf(delimiter.subarray(2)) === 0)
      throw new FormError('a delimiter stands in the head of a part')
    const part = { ...readPartHead(bytes.toString('latin1')), from, to: from }
    if (part.filename === undefined) this.#fields++
    this.#part = part
    this.parts.push(part)
    if (this.#fields > most.fields || this.parts.length - this.#fields > most.files)
      throw new FormError('it has too many parts')
    this.#opened = 0
    this.#state = 'opening'
  }
}

function blank(byte: number): boolean {
  return byte === cr || byte === lf || byte === space || byte === tab
}
