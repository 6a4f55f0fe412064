// Reads and writes the stop reasons of Anthropic's Messages.
import type { Finish } from '../canonical/answer.ts'
import { FinishReader } from '../canonical/finish.ts'
import { anthropicWords } from '../canonical/finish-words.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

const words = new FinishReader(anthropicWords)

/**
 * Reads the stop reason of a message, or of the `message_delta` that ends a stream.
 * @throws Untranslatable when the upstream says that its answer failed
 */
export function readFinish({ stop_reason: reason, stop_sequence: sequence }: JsonObject): Finish {
  const word = asText(reason)
  const finish: Finish = word === '' ? { reason: 'stop' } : words.read(word)
  return finish.reason === 'sequence' ? { ...finish, sequence: asText(sequence) } : finish
}

/** The provider's explanation of a refusal; empty when there is none. */
export function readExplanation({ stop_details: details }: JsonObject): string {
  return asText(asObject(details)?.['explanation'])
}

/** `refused`: the answer holds a refusal. Some protocols still call that a normal end, and here it is a stop reason. */
export function writeFinish({ reason, sequence, word }: Finish, refused: boolean): Record<string, unknown> {
  const stopReason = refused && reason === 'stop' ? 'refusal' : reason === 'other' ? (word ?? reason) : reasons[reason]
  return {
    stop_reason: stopReason,
    stop_sequence: sequence ?? null,
    stop_details: stopReason === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null
  }
}

const reasons = {
  stop: 'end_turn',
  sequence: 'stop_sequence',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  pause: 'pause_turn'
} as const satisfies Record<Exclude<Finish['reason'], 'other'>, string>
