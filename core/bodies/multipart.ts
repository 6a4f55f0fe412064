// Finds the parts of a form with files (RFC 7578, RFC 2046 §5.1) in bytes that come in any pieces, without keeping the
// files.
import { FormError, readPartHead } from './part-head.ts'
import type { PartHead } from './part-head.ts'

/** A part of a form, and the range of its content in the form's bytes. */
export interface Part extends PartHead {
  from: number
  /** Grows until the part has ended. */
  to: number
}

/** Called with the content of files as it comes, in pieces. */
export type FileListener = (file: Part, bytes: Buffer) => void

/** The longest head of a part, in bytes. */
const headBytes = 16 * 1024
/**
 * Limits that no client reaches, as each part costs memory. `field`: bytes of one field. `text`: bytes of all fields.
 */
const most = { fields: 256, files: 64, field: 1024 * 1024, text: 2 * 1024 * 1024 }
/**
 * The end of a delimiter of so many bytes is looked for, and then compared: Node searches for up to six bytes with
 * `memchr`, seven times as fast as for more. In content that has them too often, the whole delimiter is.
 */
const signBytes = 6
const mostMisses = 64
const headEnd = Buffer.from('\r\n\r\n')
const nothing = Buffer.alloc(0)
/** The length of the line break that begins a delimiter. */
const breakBytes = 2
const [cr, lf, dash, space, tab] = [13, 10, 45, 32, 9]

/**
 * Reads one form. It is strict where two readers could see different parts: nothing may stand before the first
 * delimiter or after the last, a delimiter must end its line, and the boundary must not occur anywhere else, because
 * some readers accept CR or LF alone as the end of a line.
 */
export class Multipart {
  /** The parts so far, in the order of the form. */
  readonly parts: Part[] = []
  /** A delimiter without its line break. */
  readonly #mark: Buffer
  /** Its last bytes, which are in fewer contents than its dashes. */
  readonly #sign: Buffer
  readonly #onFile: FileListener | undefined
  #state: 'opening' | 'content' | 'line end' | 'head' | 'over' = 'opening'
  /** How many bytes came before the present chunk. */
  #before = 0
  /** How much of the first delimiter has come. */
  #opened = 0
  /** The last bytes of the content so far, in which a delimiter may have begun. */
  #carry: Buffer = nothing
  /** The last byte after a delimiter: of a line break, or of the two dashes that end the form. */
  #last = 0
  /** Collects the head of a part. */
  #head: Buffer | undefined
  #headLength = 0
  #part: Part | undefined
  #fields = 0
  /** The bytes of all fields that have ended. */
  #text = 0

  constructor(boundary: string, onFile?: FileListener) {
    this.#mark = Buffer.from(`--${boundary}`, 'latin1')
    this.#sign = this.#mark.subarray(-signBytes)
    this.#onFile = onFile
  }

  /**
   * Reads the next bytes. They are not kept.
   * @throws FormError when they cannot belong to a form; nothing may be pushed after that
   */
  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#state === 'content') at = this.#readContent(chunk, at)
      else if (this.#state === 'opening') this.#readOpening(chunk[at++]!)
      else if (this.#state === 'head') at = this.#readHead(chunk, at)
      else if (this.#state === 'line end') this.#readLineEnd(chunk[at++]!)
      else if (!blank(chunk[at++]!)) throw new FormError('there is something behind its last delimiter')
    }
    this.#before += chunk.length
  }

  /**
   * Says that no more bytes come.
   * @throws FormError when the form is not complete
   */
  end(): void {
    if (this.#state !== 'over') throw new FormError('it ends before its last delimiter')
  }

  #readOpening(byte: number): void {
    if (byte !== this.#mark[this.#opened]) throw new FormError('it does not begin with its delimiter')
    if (++this.#opened === this.#mark.length) this.#delimited()
  }

  #readContent(chunk: Buffer, from: number): number {
    const mark = this.#mark
    const carry = this.#carry
    /** The length of a delimiter without its last byte. */
    const most = mark.length + breakBytes - 1
    if (carry.length > 0) {
      const text = Buffer.concat([carry, chunk.subarray(from, from + most)])
      const found = this.#take(text)
      if (found !== -1) return from + found + mark.length - carry.length
      if (chunk.length - from < most) {
        this.#keep(text, most)
        return chunk.length
      }
      this.#content(carry)
    }
    const rest = chunk.subarray(from)
    const found = this.#take(rest)
    if (found !== -1) return from + found + mark.length
    this.#keep(rest, most)
    return chunk.length
  }

  /** Looks for the delimiter: ends the content before it and returns where it stands, or -1. */
  #take(text: Buffer): number {
    const found = this.#find(text)
    if (found === -1) return -1
    const end = found - breakBytes
    if (end < 0 || text[end] !== cr || text[end + 1] !== lf) throw new FormError('its boundary stands within a part')
    this.#content(text.subarray(0, end))
    this.#delimited()
    return found
  }

  /** Where the delimiter stands; -1 without one. */
  #find(text: Buffer): number {
    const mark = this.#mark
    const sign = this.#sign
    const lead = mark.length - sign.length
    let at = text.indexOf(sign, lead)
    for (let misses = 0; at !== -1; at = text.indexOf(sign, at + 1)) {
      if (text.compare(mark, 0, lead, at - lead, at) === 0) return at - lead
      if (++misses === mostMisses) return text.indexOf(mark, at + 1 - lead)
    }
    return -1
  }

  /** Takes all content but the last `most` bytes, which may begin a delimiter. */
  #keep(text: Buffer, most: number): void {
    const sure = Math.max(0, text.length - most)
    this.#content(text.subarray(0, sure))
    // A copy, as the chunk will be reused.
    this.#carry = Buffer.from(text.subarray(sure))
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

  /** Handles the end of a delimiter. */
  #delimited(): void {
    const part = this.#part
    this.#carry = nothing
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

  /** Copies the head of a part, as it is short and may come in pieces. */
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
    if (bytes.includes(this.#mark)) throw new FormError('its boundary stands in the head of a part')
    const part = { ...readPartHead(bytes.toString('latin1')), from, to: from }
    if (part.filename === undefined) this.#fields++
    this.#part = part
    this.parts.push(part)
    if (this.#fields > most.fields || this.parts.length - this.#fields > most.files)
      throw new FormError('it has too many parts')
    this.#state = 'content'
  }
}

function blank(byte: number): boolean {
  return byte === cr || byte === lf || byte === space || byte === tab
}
