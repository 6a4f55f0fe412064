// OpenAI's Responses, as clients speak them and as upstreams answer them.
import { asObject } from '../object.ts'
import { readError as readAnyError } from '../errors.ts'
import { errorBody } from '../openai-chat/errors.ts'
import type { Payload, Protocol, UpstreamError } from '../protocol.ts'
import { textBytes } from '../text-bytes.ts'
import { readResponsesUsage } from '../usage/openai-tokens.ts'
import { isUnparsedBody, memberOf } from '../whole-body.ts'
import { errorPayload } from './errors.ts'
import { chunksOf, ResponseCollector } from './shape.ts'
import { responsesText } from './text.ts'
import { ResponsesWatch } from './watch.ts'

/** A response, and a conversation that was made shorter. */
const answers: ReadonlySet<string> = new Set(['response', 'response.compaction'])

/** https://platform.openai.com/docs/api-reference/responses */
export const openaiResponses: Protocol = {
  family: 'openai',
  passedHeaders: [],
  ownHeaders: {},
  watch: () => new ResponsesWatch(),
  endEvent: undefined,
  eventName: (payload) => String(asObject(JSON.parse(payload))?.['type'] ?? ''),
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

/** A response that failed tells why inside of it. */
function readError(body: unknown): UpstreamError {
  const fields = asObject(body)
  return readAnyError(asObject(fields?.['response'])?.['error'] == null ? body : fields!['response'])
}

/**
 * What is asked of responses that are kept: free, and whatever is told of one is an answer, also that it has failed.
 */
export const keptResponses: Protocol = {
  ...openaiResponses,
  watch: () => new ResponsesWatch(true),
  isAnswer: ({ data, lens }) => data.length === 0 || lens !== undefined,
  readUsage: () => undefined,
  answerBytes: () => 0
}

/** A response that failed is one all the same: whoever asked for it has to see it. */
function isAnswer({ lens }: Payload): boolean {
  return lens !== undefined && answers.has(lens.string('object') ?? '') && lens.type('output') === 'array'
}

/** Of a response, or of the one that the last event of a stream has. */
function usageOf(message: Payload): unknown {
  if (message.plain || !message.data.includes('"usage"')) return undefined
  if (isUnparsedBody(message)) return memberOf(message, 'usage')
  const body = asObject(message.shallow())
  return (asObject(body?.['response']) ?? body)?.['usage']
}

/** Deltas and whole responses; what events repeat when something is done is no text of its own. */
function answerBytes(body: unknown): number {
  const fields = asObject(body)
  return textBytes(fields?.['delta'] ?? fields?.['output'])
}
