// Gemini's generateContent, as clients speak it and as upstreams answer it.
import { asNumber, asObject, asObjects } from '../object.ts'
import type { Fields, Payload, Protocol } from '../protocol.ts'
import { textBytes } from '../text/text-bytes.ts'
import { readGeminiUsage } from '../usage/gemini.ts'
import { isUnparsedBody, memberOf } from '../whole-body.ts'
import { errorBody, readError } from './errors.ts'
import { ChunkCollector, chunksOf } from './shape.ts'
import { geminiText } from './text.ts'
import { GeminiWatch } from './watch.ts'

/** https://ai.google.dev/api/generate-content */
export const gemini: Protocol = {
  family: 'gemini',
  passedHeaders: [],
  ownHeaders: {},
  watch: (request) => new GeminiWatch(candidatesOf(request)),
  endEvent: undefined,
  chunksOf,
  collect: () => new ChunkCollector(),
  errorBody,
  errorEvent: (error) => `data: ${JSON.stringify(errorBody(error))}\n\n`,
  // The vendor's client libraries for JavaScript ignored errors in events before their second version.
  breaksOff: true,
  readError,
  isAnswer,
  blockOf,
  readUsage: (message) => readGeminiUsage(usageOf(message)),
  askForUsage: () => undefined,
  withoutUsage: () => undefined,
  modelPlaces: [['modelVersion']],
  answerBytes: (body) =>
    asObjects(asObject(body)?.['candidates']).reduce(
      (sum, { content }) => sum + textBytes(asObject(content)?.['parts']),
      0
    ),
  text: geminiText
}

/** How many candidates the request asks for. */
function candidatesOf(request: Fields): number {
  const config = asObject(request.json('generationConfig') ?? request.json('generation_config'))
  const count = asNumber(config?.['candidateCount'] ?? config?.['candidate_count'])
  return Number.isSafeInteger(count) && count > 0 ? count : 1
}

/** Whether a body is an answer. A list of chunks is one too: an upstream that was not asked for events sends that. */
function isAnswer(message: Payload): boolean {
  const { lens } = message
  if (lens)
    return !isSet(lens, 'error') && (lens.type('candidates') === 'array' || lens.type('promptFeedback') === 'object')
  const body = message.shallow()
  return (
    Array.isArray(body) &&
    body.length > 0 &&
    asObjects(body).every(
      (chunk) =>
        chunk['error'] == null &&
        (chunk['candidates'] ?? chunk['usageMetadata'] ?? chunk['promptFeedback']) !== undefined
    )
  )
}

/** https://ai.google.dev/api/generate-content#PromptFeedback */
function blockOf(message: Payload): string | undefined {
  if (!message.data.includes('"blockReason"')) return undefined
  const body = message.shallow()
  const [first] = asObjects(Array.isArray(body) ? body : [body])
  const reason = asObject(first?.['promptFeedback'])?.['blockReason']
  return typeof reason === 'string' && asObjects(first!['candidates']).length === 0 ? reason : undefined
}

function isSet(lens: NonNullable<Payload['lens']>, key: string): boolean {
  return lens.has(key) && lens.type(key) !== 'null'
}

/** The usage in a chunk or an answer, or in the last chunk of a list that has one. */
function usageOf(message: Payload): unknown {
  if (!message.data.includes('"usageMetadata"')) return undefined
  if (isUnparsedBody(message)) return memberOf(message, 'usageMetadata')
  const body = message.shallow()
  return asObject(
    Array.isArray(body) ? (body as unknown[]).findLast((chunk) => asObject(chunk)?.['usageMetadata'] != null) : body
  )?.['usageMetadata']
}
