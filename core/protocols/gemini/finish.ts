// Reasons to finish, in the words of Gemini.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { geminiWords } from '../canonical/finish-words.ts'
import { asText } from '../object.ts'

const words = new FinishReader(geminiWords)

/** `said`: what the upstream says of it. @throws Untranslatable when the model gave the answer up */
export function readFinish(reason: unknown, said: unknown): Finish {
  return words.read(asText(reason), asText(said))
}

/**
 * What a candidate says of its end. `refused`: the answer holds a refusal, of which some protocols say that the model
 * was done. Clients know the reasons of an enumeration alone, so that one without a place there is told beside.
 */
export function writeFinish({ reason, word }: Finish, refused: boolean): Record<string, string> {
  if (reason === 'length') return { finishReason: 'MAX_TOKENS' }
  if (reason === 'content_filter' || (refused && reason === 'stop')) return { finishReason: 'SAFETY' }
  if (reason === 'other') return { finishReason: 'OTHER', ...(word !== undefined && { finishMessage: word }) }
  return { finishReason: 'STOP' }
}
