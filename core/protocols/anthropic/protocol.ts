// Anthropic's Messages, as clients speak it and as upstreams answer it.
import { asObject, asObjects, asText } from '../object.ts'
import type { Payload, Protocol, ReportedUsage } from '../protocol.ts'
import { textBytes } from '../text/text-bytes.ts'
import { mergeAnthropicUsage, readAnthropicUsage } from '../usage/anthropic.ts'
import { isUnparsedBody, memberOf } from '../whole-body.ts'
import { errorBody, readError, statuses } from './errors.ts'
import { messageFrames } from './frames.ts'
import { chunksOf, MessageCollector } from './shape.ts'
import { messagesText } from './text.ts'
import { MessagesWatch } from './watch.ts'

/** https://platform.claude.com/docs/en/api/messages */
export const anthropic: Protocol = {
  family: 'anthropic',
  passedHeaders: ['anthropic-version', 'anthropic-beta'],
  ownHeaders: { 'anthropic-version': '2023-06-01' },
  watch: () => new MessagesWatch(),
  endEvent: undefined,
  eventName,
  chunksOf,
  collect: () => new MessageCollector(),
  statuses,
  errorBody,
  errorEvent: (error) => `event: error\ndata: ${JSON.stringify(errorBody(error))}\n\n`,
  readError,
  isAnswer,
  readUsage: (message) => readAnthropicUsage(usageOf(message)),
  usageReader: () => new MessageUsage(),
  askForUsage: () => undefined,
  withoutUsage: () => undefined,
  answerBytes,
  looksInto: ['message', 'delta'],
  framing: messageFrames,
  modelPlaces: [['model'], ['message', 'model']],
  text: messagesText
}

/** The name of an event is its type. Clients skip events without a name. */
function eventName(payload: string): string {
  return asText(asObject(JSON.parse(payload))?.['type'])
}

function isAnswer({ lens }: Payload): boolean {
  return lens !== undefined && lens.type('content') === 'array' && (!lens.has('error') || lens.type('error') === 'null')
}

/** The usage of a message: at its top, in the delta at the end of a stream, or in the message of `message_start`. */
function usageOf(message: Payload): unknown {
  if (message.plain || !message.data.includes('"usage"')) return undefined
  if (isUnparsedBody(message)) return memberOf(message, 'usage')
  const body = asObject(message.shallow())
  return body?.['usage'] ?? asObject(body?.['message'])?.['usage']
}

/** Merges usage: the start and the end of a stream each report a part of it. */
class MessageUsage {
  #merged: unknown

  read(message: Payload): ReportedUsage {
    const usage = usageOf(message)
    if (usage === undefined) return undefined
    this.#merged = mergeAnthropicUsage(this.#merged, usage)
    return readAnthropicUsage(this.#merged)
  }
}

function answerBytes(body: unknown): number {
  const fields = asObject(body)
  const { content, delta, content_block: block } = fields ?? {}
  return textBytes(Array.isArray(content) ? asObjects(content) : (delta ?? block))
}
