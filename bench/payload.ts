// The bytes that travel in every scenario: made by the upstream, known by the load generator, the same through every gateway.

/** The public and the upstream's model name: equal, so that a right gateway changes no byte of an answer. */
export const model = 'bench-model'
/** The client's key in the gateway's file; gateways without keys ignore it. */
export const key = 'sk-bench-0000000000000000000000000000'
export const path = '/v1/chat/completions'

/** Bytes of one event of a stream, its blank line included. */
export const eventSize = 302

const digits = 8

const chunk = {
  id: 'chatcmpl-bench0000000000000000000000',
  object: 'chat.completion.chunk',
  created: 1767225600,
  model,
  system_fingerprint: 'fp_bench',
}

/** A whole request on the wire, `size` bytes of body. The same for every contestant. */
export function requestBytes(size: number, streaming: boolean): Buffer {
  const body = (content: string) => JSON.stringify({
    model,
    ...streaming && { stream: true, stream_options: { include_usage: true } },
    messages: [{ role: 'system', content: 'You are terse.' }, { role: 'user', content }],
    temperature: 0.2,
    max_tokens: 256,
  })
  const text = body(filler(size - body('').length))
  return Buffer.from([
    `POST ${path} HTTP/1.1`,
    'host: bench.test',
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    'accept: */*',
    'user-agent: bench/1',
    `content-length: ${Buffer.byteLength(text)}`,
    '', text,
  ].join('\r\n'))
}

/** The body of a whole JSON answer, `size` bytes. */
export function answerBody(size: number): Buffer {
  const body = (content: string) => JSON.stringify({
    id: 'chatcmpl-bench0000000000000000000000',
    object: 'chat.completion',
    created: 1767225600,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: 'stop' }],
    usage: { prompt_tokens: 180, completion_tokens: 210, total_tokens: 390 },
  })
  return Buffer.from(body(filler(size - body('').length)))
}

/** The events of a stream: `count` numbered ones, then the usage and `[DONE]`. */
export class Script {
  /** Everything after the numbered events. */
  static readonly tail = Buffer.from(`data: ${JSON.stringify({
    ...chunk, choices: [], usage: { prompt_tokens: 180, completion_tokens: 210, total_tokens: 390 },
  })}\n\ndata: [DONE]\n\n`)

  /** The event made last by {@link event}; valid until its next call. */
  readonly bytes: Buffer
  readonly #digits: number

  constructor() {
    const text = (content: string) =>
      `data: ${JSON.stringify({ ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] })}\n\n`
    const number = '#'.repeat(digits)
    this.bytes = Buffer.from(text(number + filler(eventSize - text(number).length)))
    this.#digits = this.bytes.indexOf(number)
  }

  /** Makes {@link bytes} the event of that number. */
  event(number: number): Buffer {
    for (let at = this.#digits + digits - 1; at >= this.#digits; at--) {
      this.bytes[at] = 0x30 + number % 10
      number = Math.floor(number / 10)
    }
    return this.bytes
  }
}

function filler(length: number): string {
  return 'lorem ipsum dolor sit amet '.repeat(Math.ceil(length / 27)).slice(0, length)
}
