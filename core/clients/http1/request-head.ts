// Reads the head of an HTTP/1.x request and decides where its body ends (RFC 9112, sections 3 and 6).
import { invalid, isHost, maxHeaders, noTunnel, originForm, singularNames } from '../request-head.ts'
import type { Headers, RequestHead } from '../request-head.ts'
import { digits, knownNames, namePattern, trimmed } from '../../wire/grammar.ts'
import { headerFields } from '../../wire/header-fields.ts'
import { METHODS } from '../../wire/http.ts'
import { Malformed } from '../../wire/malformed.ts'

/** The head of a request that was accepted. */
export interface Http1Head extends RequestHead {
  readonly method: string
  readonly httpVersion: '1.1' | '1.0'
  /** Bytes of the body, 0 when there is none; undefined when it comes in chunks. */
  readonly length: number | undefined
  /** The client may use the connection for another request. */
  readonly persistent: boolean
  /** The client waits for `100 Continue` before it sends its body. */
  readonly expects: boolean
  /** The client asks for a WebSocket. */
  readonly webSocket: boolean
}

/**
 * What happens when a field is repeated: its values are joined with a comma, the second is dropped, all are shown as an
 * array, they are joined as cookies are, or the request is refused.
 */
const joined = 0
const dropped = 1
const shown = 2
const cookie = 3
const refused = 4

/** The name of a field, and what happens when the field is repeated. */
interface Name {
  readonly lower: string
  readonly again: number
}

const again = new Map<string, number>([
  ...[
    'age',
    'etag',
    'expires',
    'from',
    'if-modified-since',
    'if-unmodified-since',
    'last-modified',
    'location',
    'max-forwards',
    'proxy-authorization',
    'referer',
    'retry-after',
    'server',
    'user-agent'
  ].map((name): [string, number] => [name, dropped]),
  ...[...singularNames, 'set-cookie'].map((name): [string, number] => [name, shown]),
  ['cookie', cookie],
  ['content-length', refused],
  ['transfer-encoding', refused]
])
const common = [
  'accept',
  'accept-encoding',
  'accept-language',
  'connection',
  'expect',
  'sec-fetch-mode',
  'traceparent',
  'upgrade',
  'via',
  'x-forwarded-for',
  'x-request-id',
  'x-stainless-arch',
  'x-stainless-lang',
  'x-stainless-os',
  'x-stainless-package-version',
  'x-stainless-retry-count',
  'x-stainless-runtime',
  'x-stainless-runtime-version',
  'x-stainless-timeout'
]

/** Names that need no check and no change of case, which saves three microseconds for the head of a client library. */
const known = knownNames([...again.keys(), ...common], nameIn)

const methods = new Set(METHODS)
const versionPattern = /^HTTP\/\d\.\d$/
/** Refuses a tab behind the value. RFC 9112 allows it, but not every reader understands it. */
const chunkedPattern = /\r\ntransfer-encoding:[\t ]*chunked *\r\n/i
const space = 0x20

/**
 * Reads `text`, which is latin1 with CRLF at the end of each line, ends with an empty line, and has no control
 * characters in its lines except tabs.
 * @throws Malformed, and GatewayError `invalid_request` where there is more to say
 */
export function readHead(text: string): Http1Head {
  const end = text.indexOf('\r')
  const method = text.slice(0, text.indexOf(' '))
  if (method !== 'POST' && !methods.has(method)) throw new Malformed('the method is unknown')
  const target = text.slice(method.length + 1, end - 9)
  if (text.charCodeAt(end - 9) !== space) throw new Malformed('the request line is invalid')
  const httpVersion = text.startsWith('HTTP/1.1', end - 8) ? '1.1' : versionOf(text.slice(end - 8, end))
  if (method === 'CONNECT') throw noTunnel()
  const headers = readFields(text, end + 2)
  const { host, expect, upgrade, connection } = headers as Record<string, string | undefined>
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    throw invalid('The only expectation understood is 100-continue.', 417)
  if (host === undefined ? httpVersion === '1.1' : !isHost(host))
    throw invalid('Exactly one valid Host header is needed.')
  const old = httpVersion === '1.0'
  return {
    method,
    target: originForm(target, host),
    headers,
    httpVersion,
    length: lengthOf(text, headers, old),
    persistent: old
      ? hasToken(connection, 'keep-alive') && !hasToken(connection, 'close')
      : !hasToken(connection, 'close'),
    expects: expect !== undefined && !old,
    // Other upgrades are ignored, which RFC 9110 §7.8 allows.
    webSocket: upgrade !== undefined && !old && hasToken(connection, 'upgrade') && hasToken(upgrade, 'websocket')
  }
}

function versionOf(version: string): '1.1' | '1.0' {
  if (!versionPattern.test(version)) throw new Malformed('the request line is invalid')
  const number = version.slice(5)
  if (number === '1.1' || number === '1.0') return number
  if (number.startsWith('1.')) throw new Malformed('the version is unknown')
  throw invalid(`${version} is not spoken here.`, 505)
}

function readFields(text: string, from: number): Headers {
  const headers: Headers = headerFields()
  const last = text.length - 2
  let lines = 0
  for (let at = from; at < last;) {
    if (++lines > maxHeaders) throw invalid(`A request may have ${maxHeaders} header lines.`, 431)
    const end = text.indexOf('\r', at)
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon > end) throw new Malformed('a header line has no colon')
    const name = nameOf(text.slice(at, colon))
    const value = trimmed(text, colon + 1, end)
    const before = headers[name.lower]
    if (before !== undefined) headers[name.lower] = repeated(name, before, value)
    else headers[name.lower] = value
    at = end + 2
  }
  return headers
}

function nameOf(written: string): Name {
  const name = known.get(written)
  if (name) return name
  // This also refuses lines that begin with a space, which once continued the line before (obs-fold, RFC 9112 §5.2).
  if (!namePattern.test(written)) throw new Malformed('a header name is invalid')
  return nameIn(written.toLowerCase())
}

function nameIn(lower: string): Name {
  return { lower, again: again.get(lower) ?? joined }
}

function repeated(name: Name, before: string | string[], value: string): string | string[] {
  switch (name.again) {
    case dropped:
      return before
    case shown:
      return Array.isArray(before) ? [...before, value] : [before, value]
    case refused:
      throw new Malformed(`${name.lower} comes twice`)
    default:
      return `${before as string}${name.again === cookie ? '; ' : ', '}${value}`
  }
}

/** The length of the body (RFC 9112 §6.3), without the repairs that the RFC permits. */
function lengthOf(text: string, headers: Headers, old: boolean): number | undefined {
  const length = headers['content-length'] as string | undefined
  if (headers['transfer-encoding'] !== undefined) {
    if (length !== undefined) throw new Malformed('both content-length and transfer-encoding')
    if (old) throw invalid('An HTTP/1.0 request cannot have Transfer-Encoding.')
    if (!chunkedPattern.test(text)) throw invalid('The only Transfer-Encoding understood is chunked.')
    return undefined
  }
  if (length === undefined) return 0
  const bytes = digits(length)
  if (bytes === undefined) throw new Malformed('an invalid content-length')
  return bytes
}

/** Whether a comma-separated list contains a token, ignoring case. */
function hasToken(list: string | undefined, token: string): boolean {
  if (list === undefined) return false
  if (list.length < token.length) return false
  if (list.length === token.length) return list.toLowerCase() === token
  return list.split(',').some((member) => member.trim().toLowerCase() === token)
}
