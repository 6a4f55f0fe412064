// Reads and writes Gemini's finish reasons.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { geminiWords } from '../canonical/finish-words.ts'
import { asText } from '../object.ts'

const words = new FinishReader(geminiWords)

/**
 * `said`: the upstream's explanation.
 * @throws Untranslatable when the reason means that the upstream gave up
 */
export function readFinish(reason: unknown, said: unknown): Finish {
  return words.read(asText(reason), asText(said))
}

/**
 * The members of a candidate that report its end. `refused`: the answer holds a refusal, which some protocols still
 * call a normal end. Clients know only the reasons of an enumeration; another one is put into `finishMessage`.
 */
export function writeFinish({ reason, word }: Finish, refused: boolean): Record<string, string> {
  if (reason === 'length') return { finishReason: 'MAX_TOKENS' }
  if (reason === 'content_filter' || (refused && reason === 'stop')) return { finishReason: 'SAFETY' }
  if (reason === 'other') return { finishReason: 'OTHER', ...(word !== undefined && { finishMessage: word }) }
  return { finishReason: 'STOP' }
}
