// How an answer ended, in the words of Responses.
import type { Finish } from '../canonical/answer.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** Of a response in a terminal state. @throws Untranslatable when it is in another, or has failed */
export function readFinish(response: JsonObject): Finish {
  const { status, error, incomplete_details: details } = response
  if (status === 'completed') return { reason: 'stop' }
  if (status === 'failed') throw badAnswer(asText(asObject(error)?.['message']) || 'The upstream reported an error.')
  if (status !== 'incomplete') throw badAnswer('The upstream ended its answer before it was complete.')
  const reason = asObject(details)?.['reason']
  return { reason: reason === 'content_filter' ? 'content_filter' : 'length' }
}

/** What the whole response says of its end. */
export function writeFinish({ reason }: Finish): { status: string; incomplete_details: unknown } {
  if (reason === 'length') return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
  if (reason === 'content_filter') return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }
  return { status: 'completed', incomplete_details: null }
}
