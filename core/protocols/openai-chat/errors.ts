// Errors in the words of OpenAI's interfaces.
import type { ShownError } from '../protocol.ts'

/** The envelope that clients of chat completions read. https://platform.openai.com/docs/guides/error-codes */
export function errorBody(error: ShownError): unknown {
  const { message, type, code, param } = error
  return { error: param === undefined ? { message, type, code } : { message, type, param, code } }
}
