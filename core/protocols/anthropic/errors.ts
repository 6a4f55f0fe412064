// Errors in the form of Anthropic's Messages.
import { asObject, asText } from '../object.ts'
import { readError as readAnyError, tooLong } from '../told/errors.ts'
import type { ErrorHeaders, ShownError, UpstreamError } from '../protocol.ts'

/** https://platform.claude.com/docs/en/api/errors */
const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error'
}

/** Clients retry on 529, which says that the upstream is overloaded; 503 could also mean that it is broken. */
export const statuses = { 503: 529 } as const

/**
 * Errors about a conversation that the upstream should have kept. When clients see these codes, they send the whole
 * conversation again (@anthropic-ai/sdk 1.12, lib/internal/threads).
 */
const unsupported = 'thread_unsupported_request'
const ofThreads = new Set([unsupported, 'thread_not_found', 'thread_already_continued', 'thread_continue_in_flight'])

export function errorBody({ status, type, message, code, param }: ShownError): unknown {
  const error = {
    type: type === 'quota_error' ? 'billing_error' : typeOf(status),
    message: code === tooLong ? asTooLong(message) : message
  }
  // A client that asks for a thread does without one when it gets this code.
  const detail = code === 'unsupported_parameter' && param === 'thread' ? unsupported : code
  if (!ofThreads.has(detail)) return { type: 'error', error }
  return {
    type: 'error',
    error: {
      ...error,
      details: { error_code: detail, ...(detail === unsupported && { unsupported: param?.split(' ') ?? [] }) }
    }
  }
}

/**
 * Reads an error. Codes about threads are in its details, and so are the unsupported parameters: `param` has them with
 * spaces in between.
 */
export function readError(body: unknown, headers?: ErrorHeaders): UpstreamError {
  const said = readAnyError(body, headers)
  const details = asObject(asObject(asObject(body)?.['error'])?.['details'])
  const { error_code: code, unsupported: names } = details ?? {}
  if (typeof code !== 'string') return said
  return { ...said, code, param: Array.isArray(names) ? names.map(asText).join(' ') : said.param }
}

/** Makes the message begin with the words by which agents know that they have to shorten the conversation. */
function asTooLong(message: string): string {
  return /prompt is too long/i.test(message) ? message : `prompt is too long: ${message}`
}

function typeOf(status: number): string {
  return types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
}
