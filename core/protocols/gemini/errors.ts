// Errors in the words of Google's APIs.
import type { ShownError } from '../protocol.ts'

/** https://ai.google.dev/gemini-api/docs/troubleshooting */
const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT', 401: 'UNAUTHENTICATED', 402: 'RESOURCE_EXHAUSTED', 403: 'PERMISSION_DENIED', 404: 'NOT_FOUND', 408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED', 429: 'RESOURCE_EXHAUSTED', 499: 'CANCELLED', 500: 'INTERNAL', 501: 'UNIMPLEMENTED', 502: 'UNAVAILABLE', 503: 'UNAVAILABLE', 504: 'DEADLINE_EXCEEDED', 529: 'UNAVAILABLE'
}

export function errorBody({ status, message }: ShownError): unknown {
  return { error: { code: status, message, status: statuses[status] ?? (status >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT') } }
}
