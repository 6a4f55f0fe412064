// Tells the types of events of a Converse stream, which are in the headers of the messages and not in the events.
import type { JsonObject } from '../object.ts'

/**
 * The type of an event: its name, or what its members say when it has none. Empty for what is none of these.
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
 */
export function typeOf(name: string, body: JsonObject): string {
  if (name !== '') return name
  if (body['__type'] !== undefined) return 'error'
  if (body['delta'] !== undefined) return 'contentBlockDelta'
  if (body['start'] !== undefined) return 'contentBlockStart'
  if (body['role'] !== undefined) return 'messageStart'
  if (body['stopReason'] !== undefined) return 'messageStop'
  if (body['usage'] !== undefined || body['metrics'] !== undefined) return 'metadata'
  return body['contentBlockIndex'] === undefined ? '' : 'contentBlockStop'
}
