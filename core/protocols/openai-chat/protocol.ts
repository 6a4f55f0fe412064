// OpenAI chat completions, as clients speak it and as compatible upstreams answer it.
import type { Lens } from '../../bodies/lens.ts'
import { withoutMember } from '../../bodies/splice.ts'
import { countOf } from '../count.ts'
import { isFailed, readError } from '../errors.ts'
import { errorBody } from './errors.ts'
import { chunksOf, CompletionCollector } from './shape.ts'
import { chatText } from './text.ts'
import { ChatWatch } from './watch.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { skipSpace } from '../likeness.ts'
import type { Fields, Payload, Protocol, ReportedUsage } from '../protocol.ts'
import { textBytes } from '../text-bytes.ts'
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

/** Of a whole body that is parsed for its usage alone. */
const parsedBytes = 128 * 1024

const usageKey = Buffer.from('"usage"')
const messageKey = Buffer.from('"message"')
const errorWord = Buffer.from('"error"')

/**
 * The bytes hold a key, given in its quotes, with an object, whatever the spacing. Escaped quotes make text contents
 * differ.
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

/** One choice with a message at least, and none that failed. */
function isCompletion(body: JsonObject | undefined): boolean {
  const choices = body?.['choices']
  if (body?.['error'] != null || !Array.isArray(choices)) return false
  return choices.some((choice) => asObject(asObject(choice)?.['message'])) && !choices.some(isFailed)
}

/** There, and not null. */
function isSet(lens: Lens, key: string): boolean {
  return lens.has(key) && lens.type(key) !== 'null'
}

function readUsage(message: Payload): ReportedUsage {
  if (message.plain) return undefined
  if (!message.parsed) {
    // A whole body has been looked into already.
    if (message.kind === 'event' && !holdsObject(message.data, usageKey)) return undefined
    const usage = readReportedUsage(memberOf(message, 'usage') ?? asObject(memberOf(message, 'x_groq'))?.['usage'])
    if (usage !== undefined) return usage
    // Those who report inside a choice do so in small answers: to look for it there takes as long as parsing all of it.
    if (message.kind === 'json' && message.data.length > parsedBytes) return undefined
  }
  const body = asObject(message.shallow())
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

function withoutUsage(event: Payload): Buffer | 'nothing' | undefined {
  if (event.plain || !event.data.includes(usageKey)) return undefined
  const { lens } = event
  // A key given twice: the client's parser will do with it what ours does.
  if (!lens) return isOnlyUsage(event.shallow()) ? 'nothing' : undefined
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
