// Tells what an event of a stream is, where its data says so.
import { asText } from './object.ts'
import type { Payload } from './payload.ts'

/**
 * The type of an event, empty when it has none. `type`: the member of its data, which all clients go by; the name of
 * the event repeats it. Only an event that is named `error` is one whatever its data says: clients raise it unread.
 */
export function typeOfEvent({ event }: Payload, type: unknown): string {
  return event === 'error' ? event : asText(type)
}
