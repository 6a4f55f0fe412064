// Finds the key a client presents, in any of the places that clients of three protocols put it.
import { GatewayError } from '../../core/contract/contract.ts'
import type { ClientRequest } from '../../core/contract/contract.ts'

/** Where clients put a key when not in `Authorization`; searched in this order. */
const headerNames = ['x-api-key', 'x-goog-api-key'] as const

/** How a browser, whose WebSockets have no headers of their own, puts it among the subprotocols that it offers. */
const subprotocol = 'openai-insecure-api-key.'

/** Paths of the one protocol whose clients put the key in the query; those below `/v1` it shares with others. */
const queryPaths = /^\/v1beta\/|^\/v1\/models(?:\/|$)/

/**
 * The one key of a request. Empty carriers do not count, and the same key may come several times.
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
 * A repeated header reaches us as an array. A comma is a part of the value: what another reader takes for two keys is
 * not a valid one.
 */
function listed(header: string | string[] | undefined): readonly string[] {
  if (header === undefined) return none
  return typeof header === 'string' ? [header] : header
}

/**
 * The token of RFC 6750 §2.1; empty for other schemes, which are not ours to judge. The scheme's case does not matter.
 */
function bearer(value: string): string {
  const text = unpadded(value)
  return /^bearer[ \t]/i.test(text) ? unpadded(text.slice(7)) : ''
}

/** Without the white space that HTTP allows around a value (RFC 9110 §5.6.3). Any other belongs to it. */
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
  throw new GatewayError('conflicting_credentials', 'Two different API keys were given. Send one key only.')
}
