// One call in the form that undici takes: a request with a head and a body, and a handler for the answer.
import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { isPieces, lengthOf } from '../../bodies/upload.ts'
import type { UpstreamBody } from '../../bodies/upload.ts'
import type { Answering } from '../carrier.ts'
import { BadResponse, ConnectionLost, SinkFailed } from '../failure.ts'
import { maxInterim } from '../http1/response-parser.ts'
import type { UpstreamHeaders } from '../transport.ts'

type Controller = Dispatcher.DispatchController

/** A request whose body is no larger than this is written in one buffer. */
const oneWriteBytes = 16 * 1024

/** The connection or stream of a call. It is told once how the answer ended, before the call is. */
export interface Bearer {
  /**
   * True when the connection stays open after the call is given up, and may still have to send parts of the body. Those
   * must be copies, because the memory of the body is then used for other requests.
   */
  readonly shared: boolean
  /** The request is about to be sent. Called again when undici sends it again. */
  started?(): void
  /** The answer is complete according to undici. Returns an error when it is not. */
  ended(): Error | undefined
  /** The answer is incomplete and stays so. Returns whether the upstream can be taken not to have seen the request. */
  lost(cause: Error): boolean
}

/** The handler of one request. One is made per request. */
export class UndiciCall implements Dispatcher.DispatchHandler {
  /** True once the request was sent or is about to be: there is a connection for it. */
  started = false
  /** True when a byte of the answer has come. */
  heard = false
  /** Undefined once the call must not be told anything more. */
  #call: Answering | undefined
  readonly #bearer: Bearer
  #controller: Controller | undefined
  #paused = false
  #interim = 0
  #source: Readable | undefined

  constructor(call: Answering, bearer: Bearer) {
    this.#call = call
    this.#bearer = bearer
  }

  /** The request for undici. */
  request({ head, body }: Answering): Dispatcher.DispatchOptions {
    // Undici documents iterables as bodies, but its types lack them.
    return { ...readHead(head), body: this.#bodyOf(body) as Readable }
  }

  pause(): void {
    this.#paused = true
    this.#controller?.pause()
  }

  /** Resumes in a microtask: undici cannot resume one answer while it reports on another. */
  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    queueMicrotask(this.#goOn)
  }

  /** Ends the calls to the sink, and the reading of the answer. */
  abort(): void {
    this.#forget()
    this.#controller?.abort(unwanted)
  }

  onRequestStart(controller: Controller): void {
    this.started = true
    this.#controller = controller
    if (!this.#call) return controller.abort(unwanted)
    if (this.#paused) controller.pause()
    this.#bearer.started?.()
  }

  onResponseStarted(): void {
    this.heard = true
  }

  onResponseStart({ rawHeaders }: Controller, status: number): void {
    const call = this.#call
    if (status === 101) this.#lost(new BadResponse('a switch of protocols that nobody asked for'))
    else if (status < 200) {
      if (++this.#interim > maxInterim) this.#lost(new BadResponse('too many interim answers'))
    } else if (call) {
      try {
        call.onHead(status, readFields(rawHeaders!))
      } catch (thrown) {
        this.#lost(new SinkFailed('the sink threw', { cause: thrown }))
      }
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    try {
      this.#call?.onData(chunk)
    } catch (thrown) {
      this.#lost(new SinkFailed('the sink threw', { cause: thrown }))
    }
  }

  onResponseEnd(): void {
    const call = this.#call
    if (!call) return
    const fault = this.#bearer.ended()
    if (fault) return this.#lost(fault)
    this.#forget()
    call.onEnd()
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#lost(this.started ? causeOf(error) : error)
  }

  /** The request could not be sent. */
  fail(cause: Error): void {
    this.#lost(cause)
  }

  readonly #goOn = (): void => {
    if (!this.#paused) this.#controller?.resume()
  }

  #lost(cause: Error): void {
    const call = this.#call
    if (!call) return
    this.#forget()
    const unheard = this.#bearer.lost(cause)
    this.#controller?.abort(unwanted)
    call.onLost(cause, unheard)
  }

  #forget(): void {
    this.#call = undefined
    this.#source?.destroy()
  }

  /** A small body becomes one buffer, which undici can send again by itself where that is safe. */
  #bodyOf(body: UpstreamBody): Buffer | Iterable<Buffer> | Readable {
    if (isPieces(body)) return lengthOf(body) <= oneWriteBytes ? Buffer.concat(body) : slices(body, this.#bearer.shared)
    this.#source = body.open()
    this.#source.on('error', (cause) => this.#lost(new SinkFailed('the body could not be read', { cause })))
    return this.#source
  }
}

/**
 * How much of a body is handed over at a time. The whole body would be queued at once, and an HTTP/2 session with 10
 * MiB in its queue refuses every answer.
 */
const sliceBytes = 32 * 1024

function* slices(body: readonly Buffer[], copied: boolean): Generator<Buffer> {
  for (const piece of body) {
    for (let at = 0; at < piece.length; at += sliceBytes) {
      const slice = piece.subarray(at, at + sliceBytes)
      yield copied ? Buffer.from(slice) : slice
    }
  }
}

const unwanted = new Error('nobody wants the answer')

/** The parts of a head. */
function readHead(head: string): { method: string; path: string; headers: string[] } {
  const lines = head.split('\r\n')
  const [method, path] = lines[0]!.split(' ') as [string, string]
  const headers: string[] = []
  for (let i = 1; i < lines.length - 2; i++) {
    const line = lines[i]!
    const colon = line.indexOf(':')
    headers.push(line.slice(0, colon), line.slice(colon + 2))
  }
  return { method, path, headers }
}

/** Reads the fields of an answer: pairs with HTTP/1.1, an object by name with HTTP/2. */
function readFields(raw: NonNullable<Controller['rawHeaders']>): UpstreamHeaders {
  const headers: Record<string, string | string[] | undefined> = Object.create(null)
  if (!Array.isArray(raw)) {
    // Object.entries leaves out the properties that Node adds under symbols.
    for (const [name, value] of Object.entries(raw)) headers[name] = value
    return headers
  }
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toString('latin1').toLowerCase()
    const value = raw[i + 1]!.toString('latin1')
    const before = headers[name]
    if (before === undefined) headers[name] = value
    else if (typeof before === 'string') headers[name] = [before, value]
    else before.push(value)
  }
  return headers
}

/** Translates an error of undici into one of this transport. */
function causeOf(error: NodeJS.ErrnoException): Error {
  const { name, code, message } = error
  const malformed =
    (name === 'HTTPParserError' && code !== 'HPE_INVALID_EOF_STATE') ||
    code === 'UND_ERR_HEADERS_OVERFLOW' ||
    (code === 'UND_ERR_SOCKET' && message.startsWith('bad '))
  return malformed
    ? new BadResponse(message, { cause: error })
    : new ConnectionLost('the connection was lost', { cause: error })
}
