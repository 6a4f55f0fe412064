// OpenAI's chat completions, as clients speak it and as compatible upstreams answer it.
import type { Lens } from '../../bodies/lens.ts'
import { withoutMember } from '../../bodies/splice.ts'
import { countOf } from '../counting/count.ts'
import { isFailed, readError } from '../told/errors.ts'
import { errorBody } from './errors.ts'
import { chunksOf, CompletionCollector } from './shape.ts'
import { chatText } from './text.ts'
import { ChatWatch } from './watch.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { skipSpace } from '../text/likeness.ts'
import type { Fields, Payload, Protocol, ReportedUsage } from '../protocol.ts'
import { textBytes } from '../text/text-bytes.ts'
import { readAnyUsage as readReportedUsage } from '../usage/any.ts'
import { memberOf } from '../whole-body.ts'

const openBrace = 0x7b

/** https://platform.openai.com/docs/api-reference/chat */
export const openaiChat: Protocol = {
  family: 'openai',
  passedHeaders: [],
  ownHeaders: {},
  endEvent: '[DONE]',
  watch: (request) => new ChatWatch(countOf(request, 'n')),
  chunksOf,
  collect: () => new CompletionCollector(),
  errorBody,
  errorEvent: (error) => `data: ${JSON.stringify(errorBody(error))}\n\n`,
  readError,
  isAnswer,
  readUsage,
  askForUsage,
  withoutUsage,
  answerBytes,
  text: chatText
}

/** The largest whole body that is parsed only for its usage, in bytes. */
const parsedBytes = 128 * 1024

const usageKey = Buffer.from('"usage"')
const messageKey = Buffer.from('"message"')
const errorWord = Buffer.from('"error"')

/**
 * Whether the bytes hold this key, given with its quotes, with an object as its value. Text contents never match, as
 * their quotes are escaped.
 */
function holdsObject(data: Buffer, key: Buffer): boolean {
  for (let at = data.indexOf(key); at !== -1; at = data.indexOf(key, at)) {
    at = skipSpace(data, at + key.length)
    if (data[at] === 0x3a && data[skipSpace(data, at + 1)] === openBrace) return true
  }
  return false
}

function isAnswer(message: Payload): boolean {
  const { lens } = message
  if (!lens) return isCompletion(asObject(message.shallow()))
  if (isSet(lens, 'error') || lens.type('choices') !== 'array') return false
  const choices = lens.slice('choices')!
  return (
    holdsObject(choices, messageKey) &&
    !(choices.includes(errorWord) && (lens.json('choices') as unknown[]).some(isFailed))
  )
}

/** Whether it has at least one choice with a message, and none that failed. */
function isCompletion(body: JsonObject | undefined): boolean {
  const choices = body?.['choices']
  if (body?.['error'] != null || !Array.isArray(choices)) return false
  return choices.some((choice) => asObject(asObject(choice)?.['message'])) && !choices.some(isFailed)
}

/** Whether the member is there and not null. */
function isSet(lens: Lens, key: string): boolean {
  return lens.has(key) && lens.type(key) !== 'null'
}

function readUsage(message: Payload): ReportedUsage {
  if (message.plain) return undefined
  if (!message.parsed) {
    // The members of a whole body are known already.
    if (message.kind === 'event' && !holdsObject(message.data, usageKey)) return undefined
    const usage = readReportedUsage(memberOf(message, 'usage') ?? asObject(memberOf(message, 'x_groq'))?.['usage'])
    if (usage !== undefined) return usage
    // Upstreams that report usage inside a choice send small answers. Searching a large body for it costs as much as
    // parsing.
    if (message.kind === 'json' && message.data.length > parsedBytes) return undefined
  }
  const body = asObject(message.shallow())
  if (!body) return undefined
  // Besides the documented place: a vendor's own object (`x_groq`), or inside the choice.
  const places = [body['usage'], asObject(body['x_groq'])?.['usage']]
  const choices = body['choices']
  if (Array.isArray(choices)) places.push(asObject(choices[0])?.['usage'])
  for (const place of places) {
    const usage = readReportedUsage(place)
    if (usage !== undefined) return usage
  }
  return undefined
}

function withoutUsage(event: Payload): Buffer | 'nothing' | undefined {
  if (event.plain || !event.data.includes(usageKey)) return undefined
  const { lens } = event
  // No lens can read a payload with a duplicate key. The client's parser will treat it as ours does.
  if (!lens) return isOnlyUsage(event.shallow()) ? 'nothing' : undefined
  if (!lens.has('usage')) return undefined
  if (lens.type('usage') === 'null') return withoutMember(lens, 'usage')
  // An upstream that reports usage together with content does so unasked, so the event stays as it is.
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
