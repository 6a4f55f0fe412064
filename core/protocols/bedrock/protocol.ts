// Bedrock's Converse, as upstreams answer it. No client speaks it.
import { errorPayload } from '../told/aws-errors.ts'
import { readError } from '../told/errors.ts'
import { EventStream, eventStreamType } from '../event-stream.ts'
import { asObject } from '../object.ts'
import type { Payload, Protocol } from '../protocol.ts'
import { textBytes } from '../text/text-bytes.ts'
import { readBedrockUsage } from '../usage/bedrock.ts'
import { isUnparsedBody, memberOf } from '../whole-body.ts'
import { typeOf } from './event-type.ts'
import { chunksOf, ConverseCollector } from './shape.ts'
import { ConverseWatch } from './watch.ts'

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and `_ConverseStream.html` */
export const bedrock: Protocol = {
  family: 'bedrock',
  passedHeaders: [],
  ownHeaders: {},
  watch: () => new ConverseWatch(),
  endEvent: undefined,
  eventName: (payload) => typeOf('', asObject(JSON.parse(payload)) ?? {}),
  chunksOf,
  collect: () => new ConverseCollector(),
  errorBody: ({ message }) => ({ message }),
  errorEvent: ({ message }) => `data: ${JSON.stringify({ message })}\n\n`,
  readError,
  isAnswer: ({ lens }) => lens?.type('output') === 'object',
  readUsage: (message) => readBedrockUsage(usageOf(message)),
  askForUsage: () => undefined,
  withoutUsage: () => undefined,
  answerBytes,
  modelPlaces: [],
  framing: {
    mediaType: eventStreamType,
    cutter: (emit) =>
      new EventStream((frame) => {
        if (frame.kind === 'event') return emit(frame.payload, frame.name, frame.payload)
        const error = errorPayload(frame)
        emit(error, 'error', error)
      })
  }
}

function usageOf(message: Payload): unknown {
  if (message.plain || !message.data.includes('"usage"')) return undefined
  return isUnparsedBody(message) ? memberOf(message, 'usage') : asObject(message.shallow())?.['usage']
}

/** Without the filler `p` of events, by which their lengths tell nothing of what is in them. */
function answerBytes(body: unknown): number {
  const fields = asObject(body)
  return textBytes(fields?.['delta'] ?? fields?.['start'] ?? asObject(asObject(fields?.['output'])?.['message']))
}
