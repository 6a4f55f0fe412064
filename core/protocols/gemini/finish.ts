// Reasons to finish, in the words of Gemini.
import type { Finish } from '../canonical/answer.ts'

/** A word that is not known is a stop: nothing is lost by it. */
export function readFinish(reason: unknown): Finish {
  switch (reason) {
    case 'MAX_TOKENS':
    case 'CONTINUATION':
      return { reason: 'length' }
    case 'SAFETY':
    case 'RECITATION':
    case 'BLOCKLIST':
    case 'PROHIBITED_CONTENT':
    case 'SPII':
    case 'IMAGE_SAFETY':
    case 'IMAGE_PROHIBITED_CONTENT':
    case 'IMAGE_RECITATION':
      return { reason: 'content_filter' }
    default:
      return { reason: 'stop' }
  }
}

/** The model meant to call a tool, or to answer, and what it said was nothing of the kind. */
export function isMalformed(reason: unknown): boolean {
  return (
    reason === 'MALFORMED_FUNCTION_CALL' ||
    reason === 'MALFORMED_RESPONSE' ||
    reason === 'UNEXPECTED_TOOL_CALL' ||
    reason === 'TOO_MANY_TOOL_CALLS'
  )
}

/** `refused`: the answer holds a refusal, of which some protocols say that the model was done. */
export function writeFinish({ reason }: Finish, refused: boolean): string {
  if (reason === 'length') return 'MAX_TOKENS'
  return reason === 'content_filter' || (refused && reason === 'stop') ? 'SAFETY' : 'STOP'
}
