// Errors in the words of Messages.
import type { ShownError } from '../protocol.ts'

/** https://platform.claude.com/docs/en/api/errors */
const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error', 401: 'authentication_error', 402: 'billing_error', 403: 'permission_error', 404: 'not_found_error', 409: 'conflict_error',
  413: 'request_too_large', 429: 'rate_limit_error', 503: 'overloaded_error', 504: 'timeout_error', 529: 'overloaded_error'
}

export function errorBody({ status, type, message }: ShownError): unknown {
  return { type: 'error', error: { type: type === 'quota_error' ? 'billing_error' : typeOf(status), message } }
}

function typeOf(status: number): string {
  return types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
}
