// The bytes that all scenarios send: made by the upstream, known to the load generator, the same for every gateway.

/** The model's public name. The upstream uses the same name, so a correct gateway changes no byte of an answer. */
export const model = 'bench-model'
/** The upstream's name for the model where a gateway must change the request. It is as long as the public name. */
export const upstreamModel = 'bench-wired'
/** The client's key in the gateway's configuration. Gateways without keys ignore it. */
export const key = 'sk-bench-0000000000000000000000000000'
const path = '/v1/chat/completions'
/** The path that clients of Messages use. */
export const messagesPath = '/v1/messages'

/** The bytes of one event, including its blank line. */
export const eventSize = 302

const digits = 8
/** The digits of the time at which an event was sent, in microseconds. */
const stampDigits = 15

const chunk = {
  id: 'chatcmpl-bench0000000000000000000000',
  object: 'chat.completion.chunk',
  created: 1767225600,
  model,
  system_fingerprint: 'fp_bench'
}

/** The body of a small request of `size` bytes. */
export function requestBody(size: number, streaming: boolean): Buffer {
  const body = (content: string) =>
    JSON.stringify({
      model,
      ...(streaming && { stream: true, stream_options: { include_usage: true } }),
      messages: [
        { role: 'system', content: 'You are terse.' },
        { role: 'user', content }
      ],
      temperature: 0.2,
      max_tokens: 256
    })
  return Buffer.from(body(filler(size - body('').length)))
}

/** The body of {@link requestBody} with a stream, in the Messages protocol. */
export function messagesBody(size: number): Buffer {
  const body = (content: string) =>
    JSON.stringify({
      model,
      max_tokens: 256,
      stream: true,
      system: 'You are terse.',
      messages: [{ role: 'user', content }],
      temperature: 0.2
    })
  return Buffer.from(body(filler(size - body('').length)))
}

/** A large request body. */
export interface Prompt {
  /** The bytes of the whole body. */
  size: number
  /** The large part: turns of a conversation with line breaks and quotation marks, or one inline image. */
  content: 'text' | 'image'
  /** Whether `model` and `stream` come before the large part or after it. */
  keys: 'first' | 'last'
}

/** A large body for a model of that name. Bodies of the same {@link Prompt} differ only in the name. */
export function promptBody({ size, content, keys }: Prompt, name: string): Buffer {
  const decisive = { model: name, stream: false, max_tokens: 256 }
  const body = (messages: object[]) =>
    JSON.stringify(keys === 'first' ? { ...decisive, messages } : { messages, ...decisive })
  return Buffer.from(content === 'image' ? imagePrompt(size, body) : textPrompt(size, body))
}

function imagePrompt(size: number, body: (messages: object[]) => string): string {
  const of = (data: string) =>
    body([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is in this image?' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }
        ]
      }
    ])
  return of('iVBORw0KGgo+AB/9'.repeat(Math.ceil(size / 16)).slice(0, size - of('').length))
}

/** Turns of 4 KB with a line break and a quotation mark every 90 bytes, as in prose and code. JSON escapes both. */
function textPrompt(size: number, body: (messages: object[]) => string): string {
  const lines =
    'The second one asked: "lorem ipsum dolor sit amet?" and went on reading as if he had not.\n' +
    'Nobody answered him, for consectetur adipiscing elit had been said a dozen times before.\n'
  const messages: object[] = []
  for (let turn = 0; turn < Math.floor(size / 4096) - 1; turn++) {
    messages.push({ role: turn % 2 ? 'assistant' : 'user', content: lines.repeat(22) })
  }
  const last = { role: 'user', content: '' }
  messages.push(last)
  last.content = filler(size - body(messages).length)
  return body(messages)
}

/** The key with this number, of the many that the gateway knows. */
export function numberedKey(number: number): string {
  return `sk-bench-${String(number).padStart(28, '0')}`
}

/** The paths for transcriptions of sound and for speech. */
export const transcriptionsPath = '/v1/audio/transcriptions'
export const speechPath = '/v1/audio/speech'
export const uploadType = 'multipart/form-data; boundary=bench-boundary'

/** A form with a file of so many bytes, and the name of the model after it. */
export function uploadBody(size: number): Buffer {
  return Buffer.concat([
    Buffer.from(
      '--bench-boundary\r\nContent-Disposition: form-data; name="file"; filename="bench.pcm"\r\nContent-Type: application/octet-stream\r\n\r\n'
    ),
    soundBody(size),
    Buffer.from(
      `\r\n--bench-boundary\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--bench-boundary--\r\n`
    )
  ])
}

/** The transcript of an upload: `size` bytes of JSON. */
export function transcriptBody(size: number): Buffer {
  const body = (text: string) => JSON.stringify({ text, usage: { type: 'duration', seconds: 60 } })
  return Buffer.from(body(filler(size - body('').length)))
}

export const speechBody = Buffer.from(JSON.stringify({ model, voice: 'alloy', input: 'A long text, read out.' }))

/** Bytes that are not text. No two runs of 64 KB are the same. */
export function soundBody(size: number): Buffer {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at < size; at++) bytes[at] = (at * 31 + (at >> 16) * 7) & 0xff
  return bytes
}

/** A whole request as it is sent, the same for every contestant. */
export function requestBytes(body: Buffer, credential = key, target = path, type = 'application/json'): Buffer {
  return Buffer.concat([
    Buffer.from(
      [
        `POST ${target} HTTP/1.1`,
        'host: bench.test',
        `authorization: Bearer ${credential}`,
        `content-type: ${type}`,
        'accept: */*',
        'user-agent: bench/1',
        `content-length: ${body.length}`,
        '',
        ''
      ].join('\r\n')
    ),
    body
  ])
}

/** The body of a whole JSON answer of `size` bytes. */
export function answerBody(size: number): Buffer {
  const body = (content: string) =>
    JSON.stringify({
      id: 'chatcmpl-bench0000000000000000000000',
      object: 'chat.completion',
      created: 1767225600,
      model,
      choices: [{ index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: 180, completion_tokens: 210, total_tokens: 390 }
    })
  return Buffer.from(body(filler(size - body('').length)))
}

/** Where the time stands at which an event was sent: in its bytes, and likewise in its text. */
export interface Stamped {
  from: number
  to: number
}

/**
 * The events of a stream: numbered ones, each with the time at which it was sent, then the finish reason, the usage and
 * `[DONE]`.
 */
export class Script {
  /** The beginning of the text of an event, which differs for each number. The time follows. */
  static number(of: number): string {
    return String(of).padStart(digits, '0')
  }

  /** In the text of an event. */
  static readonly stampInText: Stamped = { from: digits, to: digits + stampDigits }

  /** Everything after the numbered events. */
  static readonly tail = Buffer.from(
    [
      JSON.stringify({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
      JSON.stringify({
        ...chunk,
        choices: [],
        usage: { prompt_tokens: 180, completion_tokens: 210, total_tokens: 390 }
      }),
      '[DONE]'
    ]
      .map((data) => `data: ${data}\n\n`)
      .join('')
  )

  /** The event that {@link event} made last; valid until the next call. */
  readonly bytes: Buffer
  /** In the bytes of an event. */
  readonly stamp: Stamped
  readonly #digits: number

  constructor() {
    const text = (content: string) =>
      `data: ${JSON.stringify({ ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] })}\n\n`
    const beginning = '#'.repeat(digits + stampDigits)
    this.bytes = Buffer.from(text(beginning + filler(eventSize - text(beginning).length)))
    this.#digits = this.bytes.indexOf(beginning)
    this.stamp = { from: this.#digits + digits, to: this.#digits + digits + stampDigits }
  }

  /** Turns {@link bytes} into the event with that number, sent at that time of the {@link sharedMicroseconds}. */
  event(number: number, sentAt: number): Buffer {
    this.#write(number, this.#digits, this.stamp.from)
    this.#write(sentAt, this.stamp.from, this.stamp.to)
    return this.bytes
  }

  #write(number: number, from: number, to: number): void {
    for (let at = to - 1; at >= from; at--) {
      this.bytes[at] = 0x30 + (number % 10)
      number = Math.floor(number / 10)
    }
  }
}

function filler(length: number): string {
  return 'lorem ipsum dolor sit amet '.repeat(Math.ceil(length / 27)).slice(0, length)
}

/** The path where realtime sessions are opened. */
export const realtimePath = `/v1/realtime?model=${model}`
/** A frame with sound from an upstream, and one from a client: 300 bytes each. */
export const deltaFrame = sized(
  {
    type: 'response.output_audio.delta',
    event_id: 'event_0000000000',
    response_id: 'resp_000000',
    item_id: 'item_000000',
    output_index: 0,
    content_index: 0
  },
  'delta'
)
export const appendFrame = sized({ type: 'input_audio_buffer.append' }, 'audio')

function sized(event: object, member: string): Buffer {
  const empty = JSON.stringify({ ...event, [member]: '' })
  return Buffer.from(JSON.stringify({ ...event, [member]: 'A'.repeat(300 - empty.length) }))
}
