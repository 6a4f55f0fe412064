// Finds the API key of a request, in all the places where clients of the three protocols put it.
import { GatewayError } from '../../core/contract/contract.ts'
import type { ClientRequest } from '../../core/contract/contract.ts'

/** The headers that may hold a key, in addition to `Authorization`, in the order in which they are read. */
const headerNames = ['x-api-key', 'x-goog-api-key'] as const

/** Browsers cannot set headers for WebSockets, so they offer the key as a subprotocol with this prefix. */
const subprotocol = 'openai-insecure-api-key.'

/**
 * The paths of Gemini, whose clients may put the key in the query. Paths below `/v1` are shared with other protocols.
 */
const queryPaths = /^\/v1beta\/|^\/v1\/models(?:\/|$)/

/**
 * The API key of a request. Empty values do not count, and the same key may come several times.
 * @throws GatewayError `missing_api_key`, or `conflicting_credentials` when two different keys are given
 */
export function presentedKey(request: ClientRequest): string {
  const { headers, path, query, operation } = request
  let key = ''
  for (const value of listed(headers['authorization'])) key = agreed(key, bearer(value))
  for (const name of headerNames) {
    for (const value of listed(headers[name])) key = agreed(key, unpadded(value))
  }
  if (query !== '' && queryPaths.test(path)) {
    for (const value of new URLSearchParams(query).getAll('key')) key = agreed(key, value)
  }
  if (operation.body === 'socket') {
    for (const name of String(headers['sec-websocket-protocol'] ?? '').split(',')) {
      const offered = unpadded(name)
      if (offered.startsWith(subprotocol)) key = agreed(key, offered.slice(subprotocol.length))
    }
  }
  if (key === '') {
    throw new GatewayError(
      'missing_api_key',
      'No API key was given. Send it in the header `Authorization: Bearer <key>`.'
    )
  }
  return key
}

const none: readonly string[] = []

/**
 * A repeated header comes as an array. A comma is part of a value, so two keys joined by a comma are one invalid key.
 */
function listed(header: string | string[] | undefined): readonly string[] {
  if (header === undefined) return none
  return typeof header === 'string' ? [header] : header
}

/**
 * The token of a Bearer credential (RFC 6750 §2.1), whatever the case of the scheme. Empty for other schemes, which
 * this gateway does not use.
 */
function bearer(value: string): string {
  const text = unpadded(value)
  return /^bearer[ \t]/i.test(text) ? unpadded(text.slice(7)) : ''
}

/**
 * Removes the white space that HTTP allows around a value (RFC 9110 §5.6.3). Other white space belongs to the value.
 */
function unpadded(value: string): string {
  return isBlank(value.charCodeAt(0)) || isBlank(value.charCodeAt(value.length - 1))
    ? value.replace(/^[ \t]+|[ \t]+$/g, '')
    : value
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}

function agreed(key: string, other: string): string {
  if (other === '' || other === key) return key
  if (key === '') return other
  throw new GatewayError('conflicting_credentials', 'Two different API keys were given. Send one key only.', {
    reason: {
      by: 'key',
      what: 'two of the headers and parameters that may have a key have different ones',
      where: null,
      remedy: null
    }
  })
}
