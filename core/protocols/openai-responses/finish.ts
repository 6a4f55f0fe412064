// Reads and writes how a response ended.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { responsesWords } from '../canonical/finish-words.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

const words = new FinishReader(responsesWords)

/**
 * Reads the end of a response.
 * @throws Untranslatable when its status is not final, or when it has failed
 */
export function readFinish(response: JsonObject): Finish {
  const { status, error, incomplete_details: details } = response
  if (status === 'completed') return { reason: 'stop' }
  if (status === 'failed') throw badAnswer(asText(asObject(error)?.['message']) || 'The upstream reported an error.')
  if (status !== 'incomplete') throw badAnswer('The upstream ended its answer before it was complete.')
  const reason = asText(asObject(details)?.['reason'])
  return reason === '' ? { reason: 'other', word: status } : words.read(reason)
}

/** The members of a response that report its end. */
export function writeFinish({ reason, word }: Finish): { status: string; incomplete_details: unknown } {
  if (reason === 'length') return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
  if (reason === 'content_filter') return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }
  if (reason === 'other') return { status: 'incomplete', incomplete_details: { reason: word ?? reason } }
  return { status: 'completed', incomplete_details: null }
}
