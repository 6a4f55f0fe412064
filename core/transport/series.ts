// Several requests to one upstream that are one attempt: sent one after the other, and answered with one answer.
import { isUtf8 } from 'node:buffer'
import { stringEnd } from '../bodies/elements.ts'
import { Lens, LensError } from '../bodies/lens.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import { asGatewayError, GatewayError } from '../errors.ts'
import type { HttpTransport, UpstreamCall, UpstreamHeaders, UpstreamRequest, UpstreamSink } from './transport.ts'

/** The most bytes of all answers. */
const mostBytes = 8 * 1024 * 1024

/** What describes an answer's own bytes, which the answer of them all does not have. */
const ownHeaders: ReadonlySet<string> = new Set(['content-length', 'content-encoding', 'transfer-encoding'])

/** What was answered of a series. The next attempt that asks for the same goes on behind it. */
export class Finished {
  readonly #path: string
  readonly #body: Buffer
  readonly answers: Buffer[] = []
  /** The headers of each that are kept. */
  readonly heads: Record<string, string>[] = []

  /** Takes over what the earlier ones have that are of the same requests, and leaves them with nothing. */
  constructor({ path, body }: UpstreamRequest, earlier: readonly Finished[]) {
    this.#path = path
    this.#body = Buffer.concat(body as readonly Buffer[])
    for (const other of earlier) {
      if (other.#path !== path || !other.#body.equals(this.#body)) continue
      this.answers.push(...other.answers)
      this.heads.push(...other.heads)
      other.clear()
    }
  }

  get body(): Buffer {
    return this.#body
  }

  clear(): void {
    this.answers.length = this.heads.length = 0
  }

  /** The answer of them all, as far as they are answered. */
  get text(): Buffer {
    const answers = this.answers.flatMap((answer, at) => (at === 0 ? [answer] : [Buffer.from(','), answer]))
    return Buffer.concat([
      Buffer.from(`{"heads":${JSON.stringify(this.heads)},"answers":[`),
      ...answers,
      Buffer.from(']}')
    ])
  }
}

/**
 * One under way, and the sink of each of its requests. The body is `{"requests": […]}`; the sink gets `{"heads": […],
 * "answers": […]}` when all have been answered. The first answer that is no success, or is encoded, is passed on as it
 * is, and nothing is sent after it.
 */
export class Series implements UpstreamCall, UpstreamSink {
  readonly #transport: Pick<HttpTransport, 'send'>
  readonly #channel: Channel
  readonly #request: UpstreamRequest
  readonly #requests: Requests
  readonly #heads: readonly string[]
  readonly #sink: UpstreamSink
  readonly #finished: Finished
  #untouched = true
  #head: Record<string, string> = {}
  #last: UpstreamHeaders = {}
  #pieces: Buffer[] = []
  #bytes = 0
  #call: UpstreamCall | undefined
  /** The answer under way is passed on. */
  #passed = false
  #paused = false
  #over = false

  /**
   * Sends the first request that no earlier attempt got an answer to. `heads`: the headers of answers that are kept, in
   * lower case. `finished`: what earlier attempts were answered; it gets what this one is, until all is answered.
   * @throws GatewayError when it cannot be sent
   */
  constructor(
    transport: Pick<HttpTransport, 'send'>,
    channel: Channel,
    request: UpstreamRequest,
    heads: readonly string[],
    sink: UpstreamSink,
    finished: Finished
  ) {
    this.#transport = transport
    this.#channel = channel
    this.#request = request
    this.#heads = heads
    this.#sink = sink
    this.#finished = finished
    this.#requests = new Requests(finished.body)
    for (const { length } of finished.answers) {
      this.#requests.next()
      this.#bytes += length
    }
    this.#send()
  }

  get unsent(): boolean {
    return this.#untouched && this.#call?.unsent !== false
  }

  pause(): void {
    this.#paused = true
    this.#call?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#call?.resume()
  }

  abort(): void {
    this.#over = true
    this.#call?.abort()
  }

  onHead(status: number, headers: UpstreamHeaders): void {
    this.#last = headers
    this.#passed = status !== 200 || (headers['content-encoding'] ?? 'identity') !== 'identity'
    if (this.#passed) return this.#sink.onHead(status, headers)
    const kept = this.#heads.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]]))
    this.#head = Object.fromEntries(kept) as Record<string, string>
  }

  onData(chunk: Buffer): void {
    if (this.#passed) return this.#sink.onData(chunk)
    this.#bytes += chunk.length
    if (this.#bytes > mostBytes)
      throw new GatewayError('upstream_bad_response', `The upstream's answers are larger than ${mostBytes} bytes.`)
    this.#pieces.push(chunk)
  }

  onEnd(): void {
    if (this.#passed) return this.#end(() => this.#sink.onEnd())
    this.#untouched = false
    const answer = Buffer.concat(this.#pieces)
    this.#pieces = []
    // Among the others it would make all of them worth nothing.
    if (!isObject(answer))
      return this.onError(new GatewayError('upstream_bad_response', 'The upstream sent a body that is no JSON object.'))
    this.#finished.answers.push(answer)
    this.#finished.heads.push(this.#head)
    if (this.#requests.over) return this.#end(() => this.#answer())
    // Its connection is free only when this call is over.
    queueMicrotask(() => {
      try {
        if (!this.#over) this.#send()
      } catch (error) {
        this.onError(asGatewayError(error))
      }
    })
  }

  onError(error: GatewayError): void {
    this.#end(() => this.#sink.onError(error))
  }

  #end(tell: () => void): void {
    if (this.#over) return
    this.#over = true
    tell()
  }

  #send(): void {
    const body = [this.#requests.next()]
    const call = this.#transport.send(this.#channel, { ...this.#request, body }, this)
    this.#call = call
    if (this.#over) call.abort()
    else if (this.#paused) call.pause()
  }

  #answer(): void {
    const headers = Object.entries(this.#last).filter(([name]) => !ownHeaders.has(name))
    const { text } = this.#finished
    this.#finished.clear()
    try {
      this.#sink.onHead(200, Object.assign(Object.create(null) as object, Object.fromEntries(headers)))
      this.#sink.onData(text)
    } catch (error) {
      return this.#sink.onError(asGatewayError(error))
    }
    this.#sink.onEnd()
  }
}

function isObject(bytes: Buffer): boolean {
  try {
    return isUtf8(bytes) && new Lens(bytes).start >= 0
  } catch (error) {
    if (error instanceof LensError) return false
    throw error
  }
}

/** The requests in a body, as the translation writes it: without spaces. Each is found when its turn comes. */
class Requests {
  /** Whether there are no more. */
  over = false
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#at = bytes.indexOf('[') + 1
  }

  next(): Buffer {
    const [bytes, from] = [this.#bytes, this.#at]
    let [at, depth] = [from, 0]
    do {
      const byte = bytes[at]
      if (byte === 0x22) at = stringEnd(bytes, at + 1)
      else if (byte === 0x7b || byte === 0x5b) depth++
      else if (byte === 0x7d || byte === 0x5d) depth--
      at++
    } while (depth > 0 && at < bytes.length)
    this.over = bytes[at] !== 0x2c
    this.#at = at + 1
    return bytes.subarray(from, at)
  }
}
