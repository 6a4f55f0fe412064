// Reads the stop reasons of Converse.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { bedrockWords } from '../canonical/finish-words.ts'
import { asText } from '../object.ts'

const words = new FinishReader(bedrockWords)

/**
 * What a stop reason means. Which stop sequence it was is not told.
 * @throws Untranslatable when it means that the model failed
 */
export function readFinish(stopReason: unknown): Finish {
  const word = asText(stopReason)
  return word === '' ? { reason: 'stop' } : words.read(word)
}
