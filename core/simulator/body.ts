// Reads the bodies of requests: JSON whole, forms while they come, so that an upload may be larger than memory.
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import { isObject } from './fields.ts'
import type { Fields } from './fields.ts'
import { Refusal } from './refusal.ts'

/** A file of a form. Its bytes are counted and hashed, and its beginning is kept. */
export interface Upload {
  /** Name of its part, without the brackets of a list. */
  field: string
  filename: string
  type: string
  bytes: number
  sha256: string
  /** At most 64 KiB. */
  head: Buffer
}

/** A `multipart/form-data` body. */
export interface Form {
  /** `a`: a string; `a` twice or `a[]`: an array of strings; `a[b]`: an object of strings. */
  fields: Fields
  files: readonly Upload[]
}

/** The body of a request; what is no form is bytes. */
export interface Body {
  bytes: Buffer
  form?: Form
}

const largestBody = 128 * 1024 * 1024
const largestForm = 4 * 1024 * 1024 * 1024
const headBytes = 64 * 1024
const limits = { parts: 1000, fieldSize: 1024 * 1024, fieldNameSize: 200 }

/** Calls back with the body, or with why it is refused; not at all when the client left. */
export function readBody(request: IncomingMessage, done: (body: Body | Refusal) => void): void {
  if (/^multipart\/form-data\b/i.test(request.headers['content-type'] ?? '')) return readForm(request, done)
  const chunks: Buffer[] = []
  let length = 0
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= largestBody) chunks.push(chunk)
    else chunks.length = 0
  })
  request.once('end', () => done(length <= largestBody ? { bytes: Buffer.concat(chunks) } : tooLarge(largestBody)))
}

function tooLarge(most: number): Refusal {
  return new Refusal(413, `The request body is larger than ${most} bytes.`)
}

function readForm(request: IncomingMessage, done: (body: Body | Refusal) => void): void {
  const fields = new Map<string, unknown>()
  const files: Upload[] = []
  let bytes = 0
  const refuse = (refusal: Refusal): void => {
    request.unpipe()
    // It is read to its end, as a client that is still sending hears nothing.
    if (request.readableEnded) done(refusal)
    else request.resume().once('end', () => done(refusal))
  }
  const malformed = (error: unknown): void =>
    refuse(
      new Refusal(400, `Could not parse multipart form: ${String(error instanceof Error ? error.message : error)}.`)
    )
  let parser: busboy.Busboy
  try {
    parser = busboy({ headers: request.headers, limits, defParamCharset: 'utf8' })
  } catch (error) {
    return malformed(error)
  }
  parser.on('field', (name, value) => addField(fields, name, value))
  parser.on('file', (name, stream, { filename, mimeType }: { filename?: string; mimeType: string }) => {
    const upload: Upload = {
      field: name.replace(/\[\]$/, ''),
      filename: filename ?? '',
      type: mimeType,
      bytes: 0,
      sha256: '',
      head: Buffer.alloc(0)
    }
    files.push(upload)
    readUpload(stream, upload)
  })
  // It may find more than one thing wrong.
  let over = false
  parser.on('error', (error) => {
    if (!over) malformed(error)
    over = true
  })
  parser.once('close', () => {
    if (over) return
    over = true
    done(
      bytes <= largestForm
        ? { bytes: Buffer.alloc(0), form: { fields: Object.fromEntries(fields), files } }
        : tooLarge(largestForm)
    )
  })
  request.on('data', (chunk: Buffer) => (bytes += chunk.length))
  request.pipe(parser)
}

function readUpload(stream: Readable, upload: Upload): void {
  const digest = createHash('sha256')
  const head: Buffer[] = []
  stream.on('data', (chunk: Buffer) => {
    if (upload.bytes < headBytes) head.push(chunk.subarray(0, headBytes - upload.bytes))
    upload.bytes += chunk.length
    digest.update(chunk)
  })
  stream.once('end', () => {
    upload.sha256 = digest.digest('hex')
    upload.head = Buffer.concat(head)
  })
  // The form's own error says the same.
  stream.once('error', () => {})
}

function addField(fields: Map<string, unknown>, name: string, value: string): void {
  const [, outer, inside]: (string | undefined)[] = /^([^[]+)\[([^\]]*)\]$/.exec(name) ?? []
  const key = outer ?? name
  const known = fields.get(key)
  if (inside) fields.set(key, { ...(isObject(known) && known), [inside]: value })
  else if (known !== undefined) fields.set(key, [known, value].flat())
  else fields.set(key, inside === undefined ? value : [value])
}

/**
 * The form that an endpoint takes.
 * @throws Refusal when the body is none
 */
export function formOf({ form }: { form: Form | undefined }): Form {
  if (form) return form
  throw new Refusal(400, "Invalid Content-Type: expected 'multipart/form-data'.")
}

/** The members of a form; those named are read from their text, as far as they can be. */
export function typedFields(
  { fields }: Form,
  { numbers, flags }: { numbers: readonly string[]; flags: readonly string[] }
): Fields {
  const read = (name: string, value: unknown): unknown => {
    if (numbers.includes(name) && typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)) return Number(value)
    if (flags.includes(name) && (value === 'true' || value === 'false')) return value === 'true'
    return value
  }
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, read(name, value)]))
}
