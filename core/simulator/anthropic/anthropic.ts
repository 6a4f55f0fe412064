// Anthropic's API: its endpoints, how its clients send the key, and its refusals.
import type { Protocol } from '../endpoint.ts'
import type { RefusalDetails } from '../refusal.ts'
import { countMessageTokens, messages } from './messages.ts'
import { modelDetail, modelList } from './models.ts'

/**
 * Claims lists of models, which several protocols have on the same path, if the request names a version of this API.
 */
export const anthropic: Protocol = {
  endpoints: [messages, countMessageTokens, modelList, modelDetail],
  claims: (path, headers) =>
    path.startsWith('/v1/messages') || (path.startsWith('/v1/models') && headers['anthropic-version'] !== undefined),
  admits: (key, headers) => headers['x-api-key'] === key || headers.authorization === `Bearer ${key}`,
  headers: (n) => ({ 'request-id': requestId(n), 'anthropic-organization-id': 'simulator' }),
  envelope,
  failure
}

const requestId = (n: number): string => `req_${n}`

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  504: 'timeout_error',
  529: 'overloaded_error'
}

function envelope(status: number, message: string, { type, more }: RefusalDetails, n: number): unknown {
  const usual = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  return { type: 'error', error: { type: type ?? usual, message, ...more }, request_id: requestId(n) }
}

const usual = { type: 'error', error: { type: 'api_error', message: 'The simulator was told to give up here.' } }

function failure(given: unknown = usual): string {
  return `event: error\ndata: ${typeof given === 'string' ? given : JSON.stringify(given)}\n\n`
}
