// Reasons to end, in the words of chat completions.
import type { Finish } from '../canonical/answer.ts'

/**
 * `matched`: the sequence at which some upstreams say that they stopped. A word that is not known is a stop: nothing is
 * lost by it.
 */
export function readFinish(reason: unknown, matched?: unknown): Finish {
  switch (reason) {
    case 'length':
      return { reason: 'length' }
    case 'tool_calls':
    case 'function_call':
      return { reason: 'tool_calls' }
    case 'content_filter':
      return { reason: 'content_filter' }
    default:
      return typeof matched === 'string' ? { reason: 'sequence', sequence: matched } : { reason: 'stop' }
  }
}

export function writeFinish({ reason }: Finish): string {
  switch (reason) {
    case 'length':
    case 'tool_calls':
    case 'content_filter':
      return reason
    default:
      return 'stop'
  }
}
