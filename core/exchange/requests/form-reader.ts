// Reads a form with files off the connection: looked into while it streams by, kept to be sent on, within bounds.
import { isUtf8 } from 'node:buffer'
import type { BodyMemory } from '../../bodies/body-memory.ts'
import { Form } from '../../bodies/form.ts'
import type { FormFile } from '../../bodies/form.ts'
import { Multipart } from '../../bodies/multipart.ts'
import type { Part } from '../../bodies/multipart.ts'
import { readParameters } from '../../bodies/parameters.ts'
import { FormError, isUnicode } from '../../bodies/part-head.ts'
import { Stopwatch } from '../../bodies/sound/stopwatch.ts'
import { Upload } from '../../bodies/upload.ts'
import type { BodySink, BodySource } from '../../clients/body-source.ts'
import { asGatewayError, bodyTooLarge, GatewayError } from '../../errors.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'

const slowestBytesPerMs = 1.024
const boundaryPattern = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/

/** What a form may take. */
export interface FormBounds {
  /** Bytes of it. */
  size: number
  /** Milliseconds for it, plus a second for each KiB that has arrived. */
  time: number
  memory: BodyMemory
  watchdog: Watchdog
  /** Asked now and then whether the request is over, which ends the reading. */
  whose: { readonly over: GatewayError | undefined }
  /** Files are sound, whose length is measured. */
  sound?: boolean
}

/**
 * Reads a whole form. Its bytes are kept as they came; the upload is the caller's to close.
 * @throws GatewayError `unsupported_media_type` when it is none, `invalid_request` when it is malformed,
 * `request_too_large`,
 *   `request_timeout`, or `client_closed` when it ends early; nothing is kept then
 */
export function readForm(
  source: BodySource,
  contentType: string,
  declared: number | undefined,
  bounds: FormBounds
): Promise<Form> {
  if (declared !== undefined && declared > bounds.size) throw bodyTooLarge(bounds.size, 'limits.multipart_body')
  return new Promise((resolve, reject) => void new FormReader(source, contentType, declared, bounds, resolve, reject))
}

class FormReader implements Watched, BodySink {
  rosterPlace: number | undefined = undefined
  readonly #source: BodySource
  readonly #contentType: string
  readonly #bounds: FormBounds
  readonly #resolve: (form: Form) => void
  readonly #reject: (error: GatewayError) => void
  readonly #boundary: string
  readonly #parser: Multipart
  readonly #upload: Upload
  /** Of sound, by its part. */
  readonly #stopwatches = new Map<Part, Stopwatch>()
  #over = false
  readonly #startedAt: number

  constructor(
    source: BodySource,
    contentType: string,
    declared: number | undefined,
    bounds: FormBounds,
    resolve: (form: Form) => void,
    reject: (error: GatewayError) => void
  ) {
    this.#source = source
    this.#contentType = contentType
    this.#bounds = bounds
    this.#resolve = resolve
    this.#reject = reject
    this.#startedAt = bounds.watchdog.time()
    this.#boundary = boundaryOf(contentType)
    this.#parser = new Multipart(this.#boundary, bounds.sound ? (file, bytes) => this.#listen(file, bytes) : undefined)
    this.#upload = new Upload(bounds.memory, declared)
    const resume = (): void => source.resume()
    const fail = (cause: Error): void => this.#fail(notKept(cause))
    this.#upload.onDrain = resume
    this.#upload.onError = fail
    bounds.watchdog.add(this)
    source.receive(this)
  }

  get room(): Buffer | undefined {
    return this.#over ? undefined : this.#upload.room
  }

  check(now: number): void {
    const { over } = this.#bounds.whose
    if (over) return this.#fail(over)
    const allowed = this.#bounds.time + this.#upload.length / slowestBytesPerMs
    if (now - this.#startedAt > allowed)
      this.#fail(new GatewayError('request_timeout', 'The request body did not arrive in time.'))
  }

  data(chunk: Buffer): void {
    if (this.#over) return
    if (this.#upload.length + chunk.length > this.#bounds.size)
      return this.#fail(bodyTooLarge(this.#bounds.size, 'limits.multipart_body'))
    try {
      // The upload may put its bytes elsewhere, but leaves these as they are.
      this.#parser.push(chunk)
    } catch (error) {
      return this.#fail(asRefusal(error))
    }
    if (!this.#upload.write(chunk)) this.#source.pause()
  }

  end(): void {
    if (!this.#over) void this.#finish()
  }

  lost(): void {
    this.#fail(new GatewayError('client_closed', 'The client left before its request body was complete.'))
  }

  #listen(file: Part, bytes: Buffer): void {
    let stopwatch = this.#stopwatches.get(file)
    if (!stopwatch) this.#stopwatches.set(file, (stopwatch = new Stopwatch()))
    stopwatch.push(bytes)
  }

  async #finish(): Promise<void> {
    try {
      this.#parser.end()
      await this.#upload.finish().catch((cause: unknown) => this.#fail(notKept(cause)))
      if (this.#over) return
      const form = this.#form()
      this.#over = true
      this.#bounds.watchdog.delete(this)
      this.#resolve(form)
    } catch (error) {
      this.#fail(asRefusal(error))
    }
  }

  #form(): Form {
    const { parts } = this.#parser
    const fields = parts
      .filter(({ filename }) => filename === undefined)
      .map(({ name, from, to }) => ({ name, value: this.#textOf(name, from, to), from, to }))
    const files = parts.flatMap((part): FormFile[] => {
      const { name, filename, type, from, to } = part
      return filename === undefined
        ? []
        : [{ name, filename, type, size: to - from, seconds: this.#stopwatches.get(part)?.seconds }]
    })
    return new Form(this.#upload, this.#contentType, this.#boundary, fields, files)
  }

  /** Of a field. What is no UTF-8 is another text for every reader. */
  #textOf(name: string, from: number, to: number): string {
    const bytes = this.#upload.slice(from, to)
    if (isUtf8(bytes)) return bytes.toString()
    const param = name.slice(0, 100)
    throw new GatewayError('invalid_field', `The field \`${param}\` must be text in UTF-8.`, { param })
  }

  #fail(error: GatewayError): void {
    if (this.#over) return
    this.#over = true
    this.#bounds.watchdog.delete(this)
    this.#source.abandon()
    this.#upload.close()
    this.#reject(error)
  }
}

/**
 * RFC 2046 §5.1.1. Of two boundaries some readers take the first and some the last, and some read all fields in the
 * charset that stands here.
 */
function boundaryOf(contentType: string): string {
  const kind = /^multipart\/form-data(?=[\t ]*;)/i.exec(contentType)?.[0]
  const parameters = kind === undefined ? undefined : readParameters(contentType.slice(kind.length))
  const { boundary = '', charset = 'utf-8', ...others } = Object.fromEntries(parameters ?? [])
  if (boundaryPattern.test(boundary) && isUnicode(charset) && Object.keys(others).length === 0) return boundary
  throw new GatewayError(
    'unsupported_media_type',
    `This endpoint takes multipart/form-data with a boundary, and UTF-8, not ${contentType.slice(0, 100)}.`
  )
}

function asRefusal(error: unknown): GatewayError {
  return error instanceof FormError
    ? new GatewayError('invalid_request', `The form cannot be taken: ${error.message}.`)
    : asGatewayError(error)
}

function notKept(cause: unknown): GatewayError {
  return new GatewayError('overloaded', 'The upload cannot be kept at the moment. Try again later.', {
    retryAfterMs: 5000,
    cause
  })
}
