// Finds the key a client presents, in any of the places that clients of three protocols put it.
import { GatewayError } from '../../core/contract/contract.ts'
import type { ClientRequest } from '../../core/contract/contract.ts'

/** Where clients put a key when not in `Authorization`; searched in this order. */
const headerNames = ['x-api-key', 'x-goog-api-key'] as const

/** Paths of the one protocol whose clients put the key in the query. */
const queryPaths = /^\/v1beta\/|^\/v1\/models\/[^/]+:/

/**
 * The one key of a request. Empty carriers do not count, and the same key may come several times.
 * @throws GatewayError `missing_api_key`, or `conflicting_credentials` when two different keys are given
 */
export function presentedKey(request: ClientRequest): string {
  const { headers, path, query } = request
  let key = ''
  const authorization = headers['authorization']
  if (authorization !== undefined) {
    for (const value of listed(authorization)) key = agreed(key, bearer(value))
  }
  for (const name of headerNames) {
    const header = headers[name]
    if (header === undefined) continue
    for (const value of listed(header)) key = agreed(key, value.trim())
  }
  if (query !== '' && queryPaths.test(path)) {
    for (const value of new URLSearchParams(query).getAll('key')) key = agreed(key, value.trim())
  }
  if (key === '') {
    throw new GatewayError('missing_api_key', 'No API key was given. Send it in the header `Authorization: Bearer <key>`.')
  }
  return key
}

/** A repeated header reaches us as an array or joined with commas (RFC 9110 §5.3); keys hold no commas. */
function listed(header: string | string[]): readonly string[] {
  if (typeof header === 'string') return header.includes(',') ? header.split(',') : [header]
  return header.flatMap(listed)
}

/** The token of RFC 6750 §2.1; empty for other schemes, which are not ours to judge. The scheme's case does not matter. */
function bearer(value: string): string {
  const text = value.trim()
  return /^bearer\s/i.test(text) ? text.slice(7).trim() : ''
}

function agreed(key: string, other: string): string {
  if (other === '' || other === key) return key
  if (key === '') return other
  throw new GatewayError('conflicting_credentials', 'Two different API keys were given. Send one key only.')
}
