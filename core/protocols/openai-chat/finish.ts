// Reasons to end, in the words of chat completions.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { chatWords } from '../canonical/finish-words.ts'
import { asText } from '../object.ts'

const words = new FinishReader(chatWords)

/**
 * Of a choice that has ended; upstreams that give no reason have none to tell. `matched`: the sequence at which some
 * say that they stopped.
 * @throws Untranslatable when the upstream gave the answer up
 */
export function readFinish(reason: unknown, matched?: unknown): Finish {
  const word = asText(reason)
  const finish: Finish = word === '' ? { reason: 'stop' } : words.read(word)
  return finish.reason === 'stop' && typeof matched === 'string' ? { reason: 'sequence', sequence: matched } : finish
}

export function writeFinish({ reason, word }: Finish): string {
  switch (reason) {
    case 'length':
    case 'tool_calls':
    case 'content_filter':
      return reason
    case 'other':
      return word ?? reason
    default:
      return 'stop'
  }
}
