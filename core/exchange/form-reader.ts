// Reads a form with files off the connection: looked into while it streams by, kept to be sent on, within bounds.
import busboy from 'busboy'
import type { Busboy } from 'busboy'
import type { BodySink, BodySource } from '../clients/body-source.ts'
import { fileHeadBytes, Form } from '../bodies/form.ts'
import type { FormField, FormFile } from '../bodies/form.ts'
import { Stopwatch } from '../bodies/sound/stopwatch.ts'
import { Upload } from '../bodies/upload.ts'
import { asGatewayError, GatewayError } from '../errors.ts'
import type { Watchdog, Watched } from '../watchdog/watchdog.ts'

const slowestBytesPerMs = 1.024
/** More parts than any client sends; each costs memory. */
const limits = { fieldSize: 1024 * 1024, fields: 256, files: 64, parts: 320, headerPairs: 32 }

/** What a form may take. */
export interface FormBounds {
  /** Bytes of it. */
  size: number
  /** Milliseconds for it, plus a second for each KiB that has arrived. */
  time: number
  watchdog: Watchdog
  /** Files are sound, whose length is measured. */
  sound?: boolean
}

/**
 * Reads a whole form. Its bytes are kept as they came; the upload is the caller's to close.
 * @throws GatewayError `unsupported_media_type` when it is none, `invalid_request` when it is malformed, `request_too_large`,
 *   `request_timeout`, or `client_closed` when it ends early; nothing is kept then
 */
export function readForm(source: BodySource, contentType: string, declared: number | undefined, bounds: FormBounds): Promise<Form> {
  if (declared !== undefined && declared > bounds.size) throw tooLarge(bounds.size)
  return new Promise((resolve, reject) => void new FormReader(source, contentType, bounds, resolve, reject))
}

class FormReader implements Watched, BodySink {
  rosterPlace: number | undefined = undefined
  readonly #source: BodySource
  readonly #contentType: string
  readonly #bounds: FormBounds
  readonly #resolve: (form: Form) => void
  readonly #reject: (error: GatewayError) => void
  readonly #parser: Busboy
  readonly #boundary: string
  readonly #upload = new Upload()
  readonly #fields: FormField[] = []
  readonly #files: FormFile[] = []
  /** Pieces that end where a delimiter does, so that a part ends with the piece being parsed. */
  readonly #pieces: { bytes: Buffer; end: number }[] = []
  readonly #delimiter: Buffer
  /** The end of what came, in which a delimiter may have begun. */
  #tail: Buffer = Buffer.from('\r\n')
  /** Of the delimiter before the first part; undefined until it has come. */
  #start: number | undefined
  /** Of the piece being parsed. */
  #end = 0
  #parsing = false
  #waitsForDisk = false
  #ended = false
  #over = false
  readonly #startedAt: number

  constructor(source: BodySource, contentType: string, bounds: FormBounds, resolve: (form: Form) => void, reject: (error: GatewayError) => void) {
    this.#source = source
    this.#contentType = contentType
    this.#bounds = bounds
    this.#resolve = resolve
    this.#reject = reject
    this.#startedAt = bounds.watchdog.now
    this.#boundary = boundaryOf(contentType)
    this.#delimiter = Buffer.from(`\r\n--${this.#boundary}`)
    this.#parser = this.#parse()
    bounds.watchdog.add(this)
    this.#upload.onDrain = () => {
      this.#waitsForDisk = false
      this.#flow()
    }
    this.#upload.onError = (cause) => this.#fail(new GatewayError('overloaded', 'The upload cannot be kept at the moment. Try again later.', { retryAfterMs: 5000, cause }))
    source.receive(this)
  }

  check(now: number): void {
    const allowed = this.#bounds.time + this.#upload.length / slowestBytesPerMs
    if (now - this.#startedAt > allowed) this.#fail(new GatewayError('request_timeout', 'The request body did not arrive in time.'))
  }

  data(chunk: Buffer): void {
    if (this.#over) return
    const before = this.#upload.length
    if (before + chunk.length > this.#bounds.size) {
      return this.#fail(tooLarge(this.#bounds.size))
    }
    // The chunk is valid during this call only; with what a delimiter may have begun in, it is copied once.
    const text = Buffer.concat([this.#tail, chunk])
    const bytes = text.subarray(this.#tail.length)
    if (!this.#upload.write(bytes)) this.#waitsForDisk = true
    this.#cut(text, bytes, before)
    if (!this.#parsing) this.#next()
    if (this.#waitsForDisk || this.#parsing) this.#source.pause()
  }

  end(): void {
    if (this.#over) return
    this.#ended = true
    if (!this.#parsing) this.#next()
  }

  lost(): void {
    this.#fail(new GatewayError('client_closed', 'The client left before its request body was complete.'))
  }

  /** Cuts a chunk behind each delimiter that ends in it. `text`: the tail and the chunk. `before`: bytes that came before the chunk. */
  #cut(text: Buffer, chunk: Buffer, before: number): void {
    const offset = before - this.#tail.length
    let from = 0
    for (let at = text.indexOf(this.#delimiter); at !== -1; at = text.indexOf(this.#delimiter, at + 1)) {
      const to = at + this.#delimiter.length - this.#tail.length
      // What ended in the chunk before was found there.
      if (to <= 0) continue
      this.#start ??= Math.max(0, offset + at + 2)
      this.#pieces.push({ bytes: chunk.subarray(from, to), end: offset + at })
      from = to
    }
    if (from < chunk.length) this.#pieces.push({ bytes: chunk.subarray(from), end: before + chunk.length })
    this.#tail = text.subarray(Math.max(0, text.length - this.#delimiter.length + 1))
  }

  /** Parses piece after piece, each when the one before is done with. */
  #next(): void {
    const piece = this.#pieces.shift()
    this.#parsing = piece !== undefined
    if (this.#over) return
    if (piece) {
      this.#end = piece.end
      this.#parser.write(piece.bytes, () => this.#next())
    } else if (this.#ended) this.#parser.end()
    else this.#flow()
  }

  #flow(): void {
    if (!this.#over && !this.#waitsForDisk && !this.#parsing) this.#source.resume()
  }

  #parse(): Busboy {
    const parser = busboy({ headers: { 'content-type': this.#contentType }, limits, defParamCharset: 'utf8' })
    parser.on('field', (name, value, { nameTruncated, valueTruncated }) => {
      if (nameTruncated || valueTruncated) this.#fail(tooMuch('A field is longer than 1 MiB.'))
      this.#fields.push({ name, value, end: this.#end })
    })
    parser.on('file', (name, stream, { filename, mimeType }) => {
      const file: FormFile = { name, filename, type: mimeType, size: 0, head: Buffer.alloc(0) }
      this.#files.push(file)
      const stopwatch = this.#bounds.sound ? new Stopwatch() : undefined
      stream.on('data', (bytes: Buffer) => {
        if (file.head.length < fileHeadBytes) file.head = Buffer.concat([file.head, bytes.subarray(0, fileHeadBytes - file.head.length)])
        file.size += bytes.length
        stopwatch?.push(bytes)
      })
      if (stopwatch) stream.on('end', () => void (file.seconds = stopwatch.seconds))
      stream.on('error', (cause) => this.#malformed(cause))
    })
    for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const) parser.on(limit, () => this.#fail(tooMuch('It has too many parts.')))
    parser.on('error', (cause) => this.#malformed(cause as Error))
    parser.on('close', () => void this.#done())
    return parser
  }

  #malformed(cause: Error): void {
    this.#fail(new GatewayError('invalid_request', `The request body is not a valid form: ${cause.message}.`))
  }

  async #done(): Promise<void> {
    if (this.#over) return
    try {
      await this.#upload.finish()
      const form = new Form(this.#upload, this.#contentType, this.#boundary, this.#start ?? 0, this.#fields, this.#files)
      if (this.#over) return
      this.#over = true
      this.#bounds.watchdog.delete(this)
      this.#resolve(form)
    } catch (error) {
      this.#fail(asGatewayError(error))
    }
  }

  #fail(error: GatewayError): void {
    if (this.#over) return
    this.#over = true
    this.#bounds.watchdog.delete(this)
    this.#source.abandon()
    this.#upload.close()
    this.#parser.destroy()
    this.#reject(error)
  }
}

/** RFC 2046 §5.1.1. */
function boundaryOf(contentType: string): string {
  const found = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i.exec(contentType)
  const boundary = found?.[1] ?? found?.[2]
  if (boundary !== undefined) return boundary
  throw new GatewayError('unsupported_media_type', `This endpoint takes multipart/form-data with a boundary, not ${contentType.slice(0, 100)}.`)
}

function tooLarge(size: number): GatewayError {
  return new GatewayError('request_too_large', `The request body is larger than ${size} bytes, the limit for this kind of request.`)
}

function tooMuch(what: string): GatewayError {
  return new GatewayError('invalid_request', `The form cannot be taken. ${what}`)
}
