// OpenAI's Responses, as clients speak it and as upstreams answer it.
import { asObject, asText } from '../object.ts'
import { readError as readAnyError } from '../told/errors.ts'
import { errorBody } from '../openai-chat/errors.ts'
import type { Payload, Protocol, UpstreamError } from '../protocol.ts'
import { textBytes } from '../text/text-bytes.ts'
import { readResponsesUsage } from '../usage/openai-tokens.ts'
import { isUnparsedBody, memberOf } from '../whole-body.ts'
import { errorPayload } from './errors.ts'
import { chunksOf, ResponseCollector } from './shape.ts'
import { responsesText } from './text.ts'
import { ResponsesWatch } from './watch.ts'

/** The objects that are answers: a response, and a compacted conversation. */
const answers: ReadonlySet<string> = new Set(['response', 'response.compaction'])

/** https://platform.openai.com/docs/api-reference/responses */
export const openaiResponses: Protocol = {
  family: 'openai',
  passedHeaders: [],
  ownHeaders: {},
  watch: () => new ResponsesWatch(),
  endEvent: undefined,
  eventName: (payload) => asText(asObject(JSON.parse(payload))?.['type']),
  chunksOf,
  collect: () => new ResponseCollector(),
  errorBody,
  errorEvent: (error, before) => `event: error\ndata: ${JSON.stringify(errorPayload(error, before))}\n\n`,
  readError,
  isAnswer,
  readUsage: (message) => readResponsesUsage(usageOf(message)),
  askForUsage: () => undefined,
  withoutUsage: () => undefined,
  answerBytes,
  looksInto: ['response'],
  modelPlaces: [['model'], ['response', 'model']],
  errorPlaces: [
    ['error'],
    ['incomplete_details'],
    ['output', '*', 'error'],
    ['item', 'error'],
    ['response', 'error'],
    ['response', 'incomplete_details'],
    ['response', 'output', '*', 'error']
  ],
  text: responsesText
}

/** Reads an error. A failed response has its error inside. */
function readError(body: unknown): UpstreamError {
  const fields = asObject(body)
  return readAnyError(asObject(fields?.['response'])?.['error'] == null ? body : fields!['response'])
}

/**
 * The protocol of operations on kept responses. They are free, and every response is a good answer, even a failed one.
 */
export const keptResponses: Protocol = {
  ...openaiResponses,
  watch: () => new ResponsesWatch(true),
  isAnswer: ({ data, lens }) => data.length === 0 || lens !== undefined,
  readUsage: () => undefined,
  answerBytes: () => 0
}

/** Whether a body is an answer. A failed response is one too: the client has to see it. */
function isAnswer({ lens }: Payload): boolean {
  return lens !== undefined && answers.has(lens.string('object') ?? '') && lens.type('output') === 'array'
}

/** The usage of a response, or of the response in the last event of a stream. */
function usageOf(message: Payload): unknown {
  if (message.plain || !message.data.includes('"usage"')) return undefined
  if (isUnparsedBody(message)) return memberOf(message, 'usage')
  const body = asObject(message.shallow())
  return (asObject(body?.['response']) ?? body)?.['usage']
}

/** Counts deltas and whole responses. Events that repeat a complete text are not counted. */
function answerBytes(body: unknown): number {
  const fields = asObject(body)
  return textBytes(fields?.['delta'] ?? fields?.['output'])
}
