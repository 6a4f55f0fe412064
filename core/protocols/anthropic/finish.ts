// Reasons to stop, in the words of Messages.
import type { Finish } from '../canonical/answer.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** Of a message, or of the delta at the end of a stream. A word that is not known is a stop: nothing is lost by it. */
export function readFinish({ stop_reason: reason, stop_sequence: sequence }: JsonObject): Finish {
  switch (reason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return { reason: 'length' }
    case 'stop_sequence':
      return { reason: 'sequence', sequence: asText(sequence) }
    case 'tool_use':
      return { reason: 'tool_calls' }
    case 'refusal':
      return { reason: 'content_filter' }
    case 'pause_turn':
      return { reason: 'pause' }
    default:
      return { reason: 'stop' }
  }
}

/** The provider's words on a refusal; empty when there are none. */
export function readExplanation({ stop_details: details }: JsonObject): string {
  return asText(asObject(details)?.['explanation'])
}

/** `refused`: the answer holds a refusal, of which some protocols say that the model was done. */
export function writeFinish({ reason, sequence }: Finish, refused: boolean): Record<string, unknown> {
  const stopReason = refused && reason === 'stop' ? 'refusal' : reasons[reason]
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
} as const satisfies Record<Finish['reason'], string>
