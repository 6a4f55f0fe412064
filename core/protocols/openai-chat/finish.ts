// Reads and writes the finish reasons of chat completions.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { chatWords } from '../canonical/finish-words.ts'
import { asText } from '../object.ts'

const words = new FinishReader(chatWords)

/**
 * Reads the finish reason of a choice that has ended; without one the end is normal. `matched`: the stop sequence that
 * some upstreams report.
 * @throws Untranslatable when the reason means that the upstream gave up
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
