// One call as undici sees it: a request made of a head and a body, and what becomes of its answer.
import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { isPieces, lengthOf } from '../bodies/upload.ts'
import type { UpstreamBody } from '../bodies/upload.ts'
import { oneWriteBytes } from './carrier.ts'
import type { Answering } from './carrier.ts'
import { BadResponse, ConnectionLost, SinkFailed } from './failure.ts'
import { maxInterim } from './response-parser.ts'
import type { UpstreamHeaders } from './transport.ts'

type Controller = Dispatcher.DispatchController

/** Who carries a call. Told once how it ended, before the call is. */
export interface Bearer {
  /**
   * Its connection goes on when the call is given up, and may still have to send what was handed over: that must not
   * lie where others put theirs then.
   */
  readonly shared: boolean
  /** The request is about to go out; perhaps more than once, when undici sends it again. */
  started?(): void
  /** The answer is whole, as far as undici knows; given back is what speaks against it. */
  ended(): Error | undefined
  /** The answer is not whole and will not be. Given back is whether the request was not even looked at. */
  lost(cause: Error): boolean
}

/** The handler of one request; made for each. */
export class UndiciCall implements Dispatcher.DispatchHandler {
  /** The request has gone out, or will at once: a connection was there for it. */
  started = false
  /** A byte of the answer has come. */
  heard = false
  /** Undefined when nobody wants to hear any more. */
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

  /** What is given to undici. */
  request({ head, body }: Answering): Dispatcher.DispatchOptions {
    // The types leave out what may be iterated over, which is documented.
    return { ...readHead(head), body: this.#bodyOf(body) as Readable }
  }

  pause(): void {
    this.#paused = true
    this.#controller?.pause()
  }

  /** A moment later: undici cannot go on with one answer while it is telling of another. */
  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    queueMicrotask(this.#goOn)
  }

  /** The call hears nothing more, and its answer is not read on. */
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

  /** It could not be sent. */
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

  /** One buffer when it is small, which undici can send again by itself where it is safe to. */
  #bodyOf(body: UpstreamBody): Buffer | Iterable<Buffer> | Readable {
    if (isPieces(body)) return lengthOf(body) <= oneWriteBytes ? Buffer.concat(body) : slices(body, this.#bearer.shared)
    this.#source = body.open()
    this.#source.on('error', (cause) => this.#lost(new SinkFailed('the body could not be read', { cause })))
    return this.#source
  }
}

/**
 * What is handed over at a time, as the connection takes it. All at once would be queued, and a session of HTTP/2 that
 * has 10 MiB in its queue refuses every answer.
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

/** Fields as HTTP/1.1 has them, in pairs, or HTTP/2, by name. */
function readFields(raw: NonNullable<Controller['rawHeaders']>): UpstreamHeaders {
  const headers: Record<string, string | string[] | undefined> = Object.create(null)
  if (!Array.isArray(raw)) {
    // Not what stands there under symbols.
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

/** What broke an answer that was asked for, as it is called here. */
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
