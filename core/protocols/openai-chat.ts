// OpenAI chat completions, as clients speak it and as compatible upstreams answer it.
import type { Lens } from '../bodies/lens.ts'
import { withoutMember } from '../bodies/splice.ts'
import { chunksOf, CompletionCollector } from './openai-chat-shape.ts'
import { chatText } from './openai-chat-text.ts'
import { asObject } from './object.ts'
import type { EventKind, Fields, Payload, Preface, Protocol, ReportedUsage, ShownError, StreamWatch, UpstreamError } from './protocol.ts'
import { readUsage as readReportedUsage } from './usage/any.ts'

const openBrace = 0x7b
const closeBrace = 0x7d

/** https://platform.openai.com/docs/api-reference/chat */
export const openaiChat: Protocol = {
  family: 'openai',
  passedHeaders: [],
  ownHeaders: {},
  endEvent: '[DONE]',
  watch: () => new ChatWatch(),
  chunksOf,
  collect: () => new CompletionCollector(),
  errorBody,
  errorEvent: (error) => `data: ${JSON.stringify(errorBody(error))}\n\n`,
  readError,
  isAnswer,
  readUsage,
  readUsageFromTail,
  askForUsage,
  withoutUsage,
  answerBytes,
  text: chatText
}

function errorBody(error: ShownError): unknown {
  const { message, type, code, param } = error
  return { error: param === undefined ? { message, type, code } : { message, type, param, code } }
}

function isDone(data: Buffer): boolean {
  return data[0] === 0x5b && data.toString('latin1').trimEnd() === '[DONE]'
}

/** `{"error"` at the very front, the form in which gateways and vendors send it. */
function opensWithError(data: Buffer): boolean {
  return data[0] === openBrace && data[1] === 0x22 && data[2] === 0x65 && data[3] === 0x72 && data.toString('latin1', 2, 8) === 'error"'
}

class ChatWatch implements StreamWatch {
  readonly #opened = new Set<unknown>()
  #content = false
  #done = false
  /** The last events, as the finish reason is followed by at most a usage event and a vendor's own postscript. */
  readonly #last: (Payload | undefined)[] = [undefined, undefined, undefined, undefined]
  #count = 0

  see(event: Payload): EventKind {
    const data = event.data
    if (isDone(data)) {
      this.#done = true
      return 'end'
    }
    // After the first content only the edges of an event are looked at: what is in between is the client's to read.
    if (data[0] !== openBrace || data[data.length - 1] !== closeBrace) return isJson(event) ? this.#keep(event) : 'invalid'
    if (event.event === 'error' || opensWithError(data)) {
      if (asObject(event.json())?.['error'] != null) return 'error'
    }
    if (!this.#content) {
      const kind = openingKind(event.json())
      if (kind !== 'content') {
        if (kind === 'opening') this.#keep(event)
        return kind
      }
      this.#content = true
    }
    return this.#keep(event)
  }

  /** A choice opens with its role; SDKs that put a message together fail without one. */
  missing(event: Payload): Preface {
    const chunk = asObject(event.json())
    const choices = chunk?.['choices']
    if (!Array.isArray(choices)) return []
    const opened: string[] = []
    for (const choice of choices as unknown[]) {
      const { index = 0, delta } = (asObject(choice) ?? {}) as { index?: unknown; delta?: unknown }
      if (this.#opened.has(index)) continue
      this.#opened.add(index)
      if (asObject(delta)?.['role']) continue
      const opening = { index, delta: { role: 'assistant', content: '' }, finish_reason: null }
      opened.push(JSON.stringify({ ...chunk, choices: [opening], usage: undefined }))
    }
    return opened
  }

  finished(): boolean {
    return this.#content && (this.#done || this.#last.some((event) => event !== undefined && hasFinish(event.json())))
  }

  #keep(event: Payload): EventKind {
    this.#last[this.#count++ & 3] = event
    return this.#content ? 'content' : 'opening'
  }
}

/** Payloads with white space around them. */
function isJson(event: Payload): boolean {
  return asObject(event.json()) !== undefined
}

function openingKind(body: unknown): EventKind {
  const chunk = asObject(body)
  if (!chunk) return 'invalid'
  if (chunk['error'] != null && chunk['choices'] === undefined) return 'error'
  const choices = chunk['choices']
  if (!Array.isArray(choices)) return 'opening'
  for (const choice of choices as unknown[]) {
    const { delta, finish_reason: finish } = (asObject(choice) ?? {}) as { delta?: unknown; finish_reason?: unknown }
    if (finish != null) return 'content'
    for (const [key, value] of Object.entries(asObject(delta) ?? {})) {
      if (key !== 'role' && value != null && value !== '' && !(Array.isArray(value) && value.length === 0)) return 'content'
    }
  }
  return 'opening'
}

function hasFinish(body: unknown): boolean {
  const choices = asObject(body)?.['choices']
  return Array.isArray(choices) && choices.some((choice) => asObject(choice)?.['finish_reason'] != null)
}

function readError(body: unknown): UpstreamError {
  // One vendor family wraps its error in an array; several send `{error: "text"}` or `{detail: …}`.
  const outer = Array.isArray(body) ? (body[0] as unknown) : body
  const fields = asObject(outer)
  const error = fields?.['error'] ?? fields
  const inner = asObject(error)
  const text = (value: unknown): string | undefined =>
    typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined
  const message =
    text(inner?.['message']) ?? text(inner?.['detail']) ?? text(error) ?? text(fields?.['message']) ?? text(fields?.['detail']) ?? text(outer) ?? ''
  return { message, type: text(inner?.['type']), code: text(inner?.['code']), param: text(inner?.['param']) }
}

/** The bytes hold `"usage"` as a key with an object, whatever the spacing. Escaped quotes make text contents differ. */
function mentionsUsage(data: Buffer): boolean {
  for (let at = data.indexOf('"usage"'); at !== -1; at = data.indexOf('"usage"', at)) {
    at += 7
    while (isSpace(data[at])) at++
    if (data[at] !== 0x3a) continue
    at++
    while (isSpace(data[at])) at++
    if (data[at] === openBrace) return true
  }
  return false
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isAnswer(message: Payload): boolean {
  const { lens } = message
  if (lens) return !isSet(lens, 'error') && lens.type('choices') === 'array'
  const body = asObject(message.json())
  return body?.['error'] == null && Array.isArray(body?.['choices'])
}

/** There, and not null. */
function isSet(lens: Lens, key: string): boolean {
  return lens.has(key) && lens.type(key) !== 'null'
}

function readUsage(message: Payload): ReportedUsage {
  if (!message.parsed) {
    // A whole body has been looked into already.
    if (message.kind === 'event' && !mentionsUsage(message.data)) return undefined
    const usage = readReportedUsage(message.lens?.json('usage'))
    if (usage !== undefined) return usage
  }
  const body = asObject(message.json())
  if (!body) return undefined
  // Beside the documented place: a vendor's own object (`x_groq`), or inside the choice.
  const places = [body['usage'], asObject(body['x_groq'])?.['usage']]
  const choices = body['choices']
  if (Array.isArray(choices)) places.push(asObject(choices[0])?.['usage'])
  for (const place of places) {
    const usage = readReportedUsage(place)
    if (usage !== undefined) return usage
  }
  return undefined
}

function readUsageFromTail(tail: string): ReportedUsage {
  for (let at = tail.lastIndexOf('"usage"'); at !== -1; at = at === 0 ? -1 : tail.lastIndexOf('"usage"', at - 1)) {
    const open = /^"usage"\s*:\s*(?=\{)/.exec(tail.slice(at, at + 64))
    if (!open) continue
    const text = tail.slice(at + open[0].length)
    for (let end = text.indexOf('}'); end !== -1 && end < 4096; end = text.indexOf('}', end + 1)) {
      try {
        return readReportedUsage(JSON.parse(text.slice(0, end + 1)))
      } catch {
        // The brace closed an object inside.
      }
    }
  }
  return undefined
}

function withoutUsage(event: Payload): Buffer | 'nothing' | undefined {
  if (!event.data.includes('"usage"')) return undefined
  const { lens } = event
  // A key given twice: the client's parser will do with it what ours does.
  if (!lens) return isOnlyUsage(event.json()) ? 'nothing' : undefined
  if (!lens.has('usage')) return undefined
  if (lens.type('usage') === 'null') return withoutMember(lens, 'usage')
  // An upstream that reports in the midst of its answer does so by itself: that stays as it came.
  return lens.type('choices') === 'array' && (lens.json('choices') as unknown[]).length > 0 ? undefined : 'nothing'
}

function isOnlyUsage(payload: unknown): boolean {
  const body = asObject(payload)
  if (!body || body['usage'] == null) return false
  const { choices } = body
  return !Array.isArray(choices) || choices.length === 0
}

function askForUsage(fields: Fields): { key: string; json: string } | undefined {
  const options = asObject(fields.json('stream_options'))
  if (options?.['include_usage'] === true) return undefined
  return { key: 'stream_options', json: JSON.stringify({ ...options, include_usage: true }) }
}

function answerBytes(body: unknown): number {
  const choices = asObject(body)?.['choices']
  if (!Array.isArray(choices)) return 0
  let bytes = 0
  for (const choice of choices as unknown[]) {
    const { message, delta } = (asObject(choice) ?? {}) as { message?: unknown; delta?: unknown }
    bytes += textBytes(message ?? delta)
  }
  return bytes
}

/** Every string of a message counts, whatever the vendor calls the field; keys and structure do not. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = 0
  for (const [key, inner] of Object.entries(value)) if (key !== 'role' && key !== 'type' && key !== 'id') bytes += textBytes(inner)
  return bytes
}
