// Checks what the parsers let through: a request head that two readers could understand differently is refused.
import type { IncomingMessage } from 'node:http'
import { GatewayError } from './errors.ts'

/** Of a request's head, in bytes: the request line and all header lines. */
export const maxHeadBytes = 16 * 1024
/** Header lines of one request. */
export const maxHeaders = 100

type Headers = Record<string, string | string[] | undefined>

/** Lines of which Node would drop or join a second one, while it may be the one that counts for somebody else. One bit each. */
const singular = new Map(['host', 'authorization', 'x-api-key', 'x-goog-api-key', 'content-type'].map((name, at) => [name, 1 << at]))
/** One bit per length of such a name: most others are told apart by it. */
const singularLengths = [...singular.keys()].reduce((bits, { length }) => bits | (1 << length), 0)

/** A visible character of ASCII except the number sign, which begins what is never sent (RFC 9112 §3.2). */
const targetPattern = /^\/[!"$-~]*$/
const hostPattern = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::\d{1,5})?$/i

/** A head that was accepted. */
export interface RequestHead {
  /** Origin-form. */
  target: string
  /** Lower-case names; repeated credentials, `host` and `content-type` as arrays. */
  headers: Headers
}

/**
 * Checks the head of an HTTP/1.x request.
 * @throws GatewayError `invalid_request`; the connection must be closed, since its next request may not be where we think
 */
export function checkHttp1Head({ httpVersion, headers, rawHeaders, url = '' }: IncomingMessage): RequestHead {
  // The parser takes any version and protocol word it has heard of.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') throw invalid(`HTTP/${httpVersion} is not spoken here.`, 505)
  showRepeated(rawHeaders, headers)
  const coding = headers['transfer-encoding']
  if (coding !== undefined) {
    if (httpVersion === '1.0') throw invalid('An HTTP/1.0 request cannot have Transfer-Encoding.')
    if (typeof coding !== 'string' || coding.toLowerCase() !== 'chunked') throw invalid('The only Transfer-Encoding understood is chunked.')
  }
  const { host, expect } = headers
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') throw invalid('The only expectation understood is 100-continue.', 417)
  if (host === undefined ? httpVersion === '1.1' : !isHost(host)) throw invalid('Exactly one valid Host header is needed.')
  return { target: originForm(url, host), headers }
}

/**
 * Checks the head of an HTTP/2 request. `host` is filled from `:authority` when it is absent.
 * @throws GatewayError `invalid_request`
 */
export function checkHttp2Head(headers: Headers, rawHeaders: readonly string[]): RequestHead {
  if (headers[':method'] === 'CONNECT') throw noTunnel()
  showRepeated(rawHeaders, headers)
  const authority = headers[':authority']
  const host = (headers['host'] ??= authority)
  if (!isHost(host) || String(authority ?? host).toLowerCase() !== host.toLowerCase()) {
    throw invalid('Exactly one valid :authority or Host is needed.')
  }
  const target = String(headers[':path'])
  if (!targetPattern.test(target)) throw invalid('The request target must be a path.')
  return { target, headers }
}

/** The refusal of CONNECT. */
export function noTunnel(): GatewayError {
  return new GatewayError('method_not_allowed', 'This server is not a forward proxy: CONNECT is refused.')
}

/** A request that breaks the rules of HTTP. */
export function invalid(message: string, status = 400): GatewayError {
  return new GatewayError('invalid_request', message, { status })
}

function showRepeated(raw: readonly string[], headers: Headers): void {
  if (raw.length > 2 * maxHeaders) throw invalid(`A request may have ${maxHeaders} header lines.`, 431)
  let seen = 0
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    if (((singularLengths >> name.length) & 1) === 0) continue
    const lower = name.toLowerCase()
    const bit = singular.get(lower) ?? 0
    if (seen & bit) headers[lower] = raw.filter((_, at) => at % 2 === 1 && raw[at - 1]!.toLowerCase() === lower)
    seen |= bit
  }
}

function originForm(target: string, host: string | undefined): string {
  if (targetPattern.test(target)) return target
  // Absolute-form, which a server must accept (RFC 9112 §3.2.2), as long as it names the same place twice.
  const [, authority, rest] = /^https?:\/\/([^/?]*)(.*)$/i.exec(target) ?? []
  const path = rest?.startsWith('/') ? rest : `/${rest}`
  if (authority === undefined || authority.toLowerCase() !== host?.toLowerCase() || !targetPattern.test(path)) {
    throw invalid('The request target must be a path on this host.')
  }
  return path
}

function isHost(host: string | string[] | undefined): host is string {
  return typeof host === 'string' && hostPattern.test(host)
}
