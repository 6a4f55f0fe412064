// Errors in the form of OpenAI's interfaces.
import type { ShownError } from '../protocol.ts'

/** An error as clients of OpenAI's interfaces read it. https://platform.openai.com/docs/guides/error-codes */
export function errorBody(error: ShownError): unknown {
  const { message, type, code, param } = error
  return { error: param === undefined ? { message, type, code } : { message, type, param, code } }
}
