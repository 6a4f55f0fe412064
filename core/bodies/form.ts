// A form with files (RFC 7578): its fields are looked up by name, and edited in its bytes.
import { GatewayError } from '../errors.ts'
import type { Fields } from './fields.ts'
import { named } from './json/names.ts'
import { isPieces } from './upload.ts'
import type { Piece, Upload, UpstreamBody } from './upload.ts'

/** A field without a file, and the range of its value in the upload. */
export interface FormField {
  name: string
  value: string
  from: number
  to: number
}

/** A file of a form, without its content. */
export interface FormFile {
  name: string
  filename: string
  type: string
  size: number
  /**
   * The length of a recording, in seconds. Undefined for unknown formats, and where the operation is not charged for
   * it.
   */
  seconds: number | undefined
}

/** The fields and files that were found in an upload. */
export class Form implements Fields {
  readonly upload: Upload
  readonly contentType: string
  readonly files: readonly FormFile[]
  readonly #boundary: string
  readonly #fields = new Map<string, FormField>()

  /** @throws GatewayError `invalid_field` when a name occurs twice, as two readers could understand that differently */
  constructor(
    upload: Upload,
    contentType: string,
    boundary: string,
    fields: readonly FormField[],
    files: readonly FormFile[]
  ) {
    this.upload = upload
    this.contentType = contentType
    this.files = files
    this.#boundary = boundary
    for (const field of fields) {
      // Lists are repeated fields whose names end in brackets.
      if (this.#fields.has(field.name) && !field.name.endsWith('[]')) {
        throw new GatewayError('invalid_field', `The field \`${field.name.slice(0, 100)}\` stands in the form twice.`, {
          param: field.name.slice(0, 100)
        })
      }
      this.#fields.set(field.name, field)
    }
    const both = files.find(({ name }) => this.#fields.has(name))
    if (both)
      throw new GatewayError(
        'invalid_field',
        `The part \`${both.name.slice(0, 100)}\` is in the form as a field and as a file.`,
        { param: both.name.slice(0, 100) }
      )
  }

  /** Fields and files by name, as JSON data. Of several with one name it has the last. */
  describe(): Record<string, unknown> {
    const fields = [...this.#fields.values()].map(({ name, value }): [string, unknown] => [name, value])
    const files = this.files.map(({ name, filename, type, size }): [string, unknown] => [
      name,
      { filename, type, size }
    ])
    return Object.fromEntries([...fields, ...files])
  }

  get oddKeys(): readonly string[] {
    return [...this.#fields.keys()].filter((name) => named(name).odd)
  }

  has(key: string): boolean {
    return this.#fields.has(key)
  }

  size(key: string): number {
    return Buffer.byteLength(this.string(key) ?? '')
  }

  string(key: string): string | undefined {
    return this.#fields.get(key)?.value
  }

  flag(key: string): boolean | undefined {
    const text = this.string(key)?.toLowerCase()
    return text === 'true' ? true : text === undefined || text === '' || text === 'false' ? false : undefined
  }

  number(key: string): number | undefined {
    const text = this.string(key)?.trim()
    return text === undefined || !/^-?\d+(\.\d+)?$/.test(text) ? undefined : Number(text)
  }

  json(key: string): unknown {
    const text = this.string(key)
    try {
      return text === undefined ? undefined : JSON.parse(text)
    } catch {
      return text
    }
  }

  /**
   * The form's content in pieces, for comparing requests: a repeated form is the same even if its boundary differs.
   * Each boundary is replaced by its offset, so that no text of a field can stand for one.
   */
  async *content(): AsyncGenerator<Buffer> {
    const { upload } = this
    const delimiter = Buffer.from(`--${this.#boundary}`)
    const body = upload.compose([{ from: 0, to: upload.length }])
    let rest: Buffer = Buffer.alloc(0)
    let length = 0
    for await (const bytes of isPieces(body) ? body : (body.open() as AsyncIterable<Buffer>)) {
      const text = Buffer.concat([rest, bytes])
      let from = 0
      for (let at = text.indexOf(delimiter); at !== -1; at = text.indexOf(delimiter, from)) {
        yield text.subarray(from, at)
        length += at - from
        yield Buffer.from(`\r\n--${length}\r\n`)
        from = at + delimiter.length
      }
      // The rest may end with the beginning of a boundary.
      const to = Math.max(from, text.length - delimiter.length + 1)
      yield text.subarray(from, to)
      length += to - from
      rest = text.subarray(to)
    }
    yield rest
  }

  /**
   * The form's bytes with fields set to new values, given as JSON. An existing value is replaced in place; a new field
   * is put first.
   */
  render(changes: ReadonlyMap<string, string> | undefined): UpstreamBody {
    const { upload } = this
    if (!changes) return upload.compose([{ from: 0, to: upload.length }])
    const added: string[] = []
    const replaced: { from: number; to: number; text: string }[] = []
    for (const [name, json] of changes) {
      const value: unknown = JSON.parse(json)
      const text = typeof value === 'string' ? value : json
      const field = this.#fields.get(name)
      if (field) replaced.push({ from: field.from, to: field.to, text })
      else added.push(`--${this.#boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`)
    }
    const pieces: Piece[] = []
    let at = 0
    if (added.length > 0) pieces.push(Buffer.from(added.join('')))
    for (const { from, to, text } of replaced.sort((a, b) => a.from - b.from)) {
      pieces.push({ from: at, to: from }, Buffer.from(text))
      at = to
    }
    pieces.push({ from: at, to: upload.length })
    return upload.compose(pieces)
  }
}
