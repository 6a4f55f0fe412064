// Errors in mid-stream, as clients of Responses understand them.
import type { ShownError } from '../protocol.ts'

/** The published form, which is flat, and the live form inside of it: client libraries know one or the other. */
export function errorPayload({ type, code, message, param }: ShownError, sequence: number): unknown {
  const said = { code, message, param: param ?? null }
  return { type: 'error', sequence_number: sequence, ...said, error: { type, ...said } }
}
