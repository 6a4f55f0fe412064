// Reads request bodies: JSON as a whole, forms as they come, so that an upload may be larger than memory.
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Readable } from 'node:stream'
import type Busboy from 'busboy'
import { isObject } from './fields.ts'
import type { Fields } from './fields.ts'
import { Refusal } from './refusal.ts'
import { thrownMessage } from '../thrown.ts'

/** A file of a form. Its bytes are counted and hashed, and only its beginning is kept. */
export interface Upload {
  /** The name of its part, without the brackets of a list. */
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
  /** `a` is a string; several `a`, or `a[]`, are an array of strings; `a[b]` is an object of strings. */
  fields: Fields
  files: readonly Upload[]
}

/** The body of a request. Any body but a form is bytes. */
export interface Body {
  bytes: Buffer
  form?: Form
}

const require = createRequire(import.meta.url)
const largestBody = 128 * 1024 * 1024
const largestForm = 4 * 1024 * 1024 * 1024
const headBytes = 64 * 1024
const limits = { parts: 1000, fieldSize: 1024 * 1024, fieldNameSize: 200 }

/** Calls back with the body, or with the refusal; never when the client has left. */
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
    // The rest is read, because a client that still sends would not read the refusal.
    if (request.readableEnded) done(refusal)
    else request.resume().once('end', () => done(refusal))
  }
  const malformed = (error: unknown): void =>
    refuse(new Refusal(400, `Could not parse multipart form: ${thrownMessage(error)}.`))
  // Loaded with the first form.
  const busboy = require('busboy') as typeof Busboy
  let parser: Busboy.Busboy
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
  // The parser may report several errors.
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
  // The form's own error reports the same.
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
 * The form in a body.
 * @throws Refusal when the body is not a form
 */
export function formOf({ form }: { form: Form | undefined }): Form {
  if (form) return form
  throw new Refusal(400, "Invalid Content-Type: expected 'multipart/form-data'.")
}

/** The fields of a form. Those named in `numbers` and `flags` are converted if their text allows it. */
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
