// Errors in mid-stream in the form of OpenAI's Responses.
import type { ShownError } from '../protocol.ts'

/**
 * The error in both forms, as client libraries know one or the other: the documented one is flat, the real one nested.
 */
export function errorPayload({ type, code, message, param }: ShownError, sequence: number): unknown {
  const said = { code, message, param: param ?? null }
  return { type: 'error', sequence_number: sequence, ...said, error: { type, ...said } }
}
