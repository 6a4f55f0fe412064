// Reads the events of Messages that come in messages of a binary stream, each in base64.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html
import { errorPayload } from '../told/aws-errors.ts'
import { EventStream, eventStreamType } from '../event-stream.ts'
import { asObject, asText } from '../object.ts'
import { BrokenStream } from '../protocol.ts'
import type { UpstreamFraming } from '../protocol.ts'

/** What the platform measured, in the last event: clients do not know it, and its counts are not those of the usage. */
const metrics = 'amazon-bedrock-invocationMetrics'

/** The type of an event, where it stands first, as in all that the vendor sends. */
const leadingType = /^\{"type":"(\w{1,64})"/
/** Each of them ends a line of an event. */
const [lineFeed, carriageReturn] = [0x0a, 0x0d]

export const messageFrames: UpstreamFraming = {
  mediaType: eventStreamType,
  cutter: (emit) =>
    new EventStream((frame) => {
      if (frame.kind !== 'event') {
        const error = errorPayload(frame)
        return emit(error, 'error', error)
      }
      const data = eventIn(frame.payload)
      const name = leadingType.exec(data.toString('latin1', 0, 80))?.[1] ?? asText(asObject(parsed(data))?.['type'])
      const head = `event: ${name}\ndata: `
      const bytes = Buffer.concat([Buffer.from(head), data, Buffer.from('\n\n')])
      emit(bytes.subarray(Buffer.byteLength(head), -2), name, bytes)
    })
}

/** The JSON of the event in a payload, in one line. */
function eventIn(payload: Buffer): Buffer {
  const data = Buffer.from(asText(asObject(parsed(payload))?.['bytes']), 'base64')
  if (!data.includes(lineFeed) && !data.includes(carriageReturn) && !data.includes(metrics)) return data
  const { [metrics]: _metrics, ...event } = asObject(parsed(data)) ?? {}
  return Buffer.from(JSON.stringify(event))
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new BrokenStream('The upstream sent an event that is no JSON.')
  }
}
