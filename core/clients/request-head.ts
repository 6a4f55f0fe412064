// Checks the head of a request in any version of HTTP: one that two readers could understand differently is refused.
import { GatewayError } from '../errors.ts'
import { handshakeProtocols } from './handshake.ts'

/** The most bytes of a request's head: its request line and all header lines. */
export const maxHeadBytes = 16 * 1024
/** The most header lines of one request. */
export const maxHeaders = 100

/** By lower-case name. Repeated credentials, `host` and `content-type` are arrays. */
export type Headers = Record<string, string | string[] | undefined>

/** Headers that must not be repeated: one reader may use the first value and another the second. */
export const singularNames: readonly string[] = ['host', 'authorization', 'x-api-key', 'x-goog-api-key', 'content-type']
/** Each name is given one bit. */
const singular = new Map(singularNames.map((name, at) => [name, 1 << at]))
/** One bit per length of such a name, which quickly excludes most other names. */
const singularLengths = [...singular.keys()].reduce((bits, { length }) => bits | (1 << length), 0)

/**
 * Visible ASCII characters except the number sign, which begins a fragment; fragments are never sent (RFC 9112 §3.2).
 */
const targetPattern = /^\/[!"$-~]*$/
const hostPattern = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::\d{1,5})?$/i

/** The head of a request that was accepted. */
export interface RequestHead {
  /** In origin-form. */
  target: string
  headers: Headers
}

/** The head of an HTTP/2 request that was accepted. */
export interface Http2Head extends RequestHead {
  /** For a WebSocket handshake (RFC 8441): the subprotocols that the client offers. */
  socket: readonly string[] | undefined
}

/**
 * Checks the head of an HTTP/2 request. `host` is filled from `:authority` when it is absent.
 * @throws GatewayError `invalid_request`
 */
export function checkHttp2Head(headers: Headers, rawHeaders: readonly string[]): Http2Head {
  const connect = headers[':method'] === 'CONNECT'
  if (connect && headers[':protocol'] !== 'websocket') throw noTunnel()
  showRepeated(rawHeaders, headers)
  const authority = headers[':authority']
  const host = (headers['host'] ??= authority)
  if (!isHost(host) || String(authority ?? host).toLowerCase() !== host.toLowerCase()) {
    throw invalid('Exactly one valid :authority or Host is needed.')
  }
  const target = String(headers[':path'])
  if (!targetPattern.test(target)) throw invalid('The request target must be a path.')
  return { target, headers, socket: connect ? handshakeProtocols(headers) : undefined }
}

/** The refusal of CONNECT. */
export function noTunnel(): GatewayError {
  return new GatewayError('method_not_allowed', 'This server is not a forward proxy: CONNECT is refused.')
}

/** Makes the error for a request that breaks the rules of HTTP. */
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

/**
 * The path and query of a target on this host.
 * @throws GatewayError `invalid_request`
 */
export function originForm(target: string, host: string | undefined): string {
  if (targetPattern.test(target)) return target
  // Absolute-form, which a server must accept (RFC 9112 §3.2.2), when it names the same host as the Host header.
  const [, authority, rest] = /^https?:\/\/([^/?]*)(.*)$/i.exec(target) ?? []
  const path = rest?.startsWith('/') ? rest : `/${rest}`
  if (authority === undefined || authority.toLowerCase() !== host?.toLowerCase() || !targetPattern.test(path)) {
    throw invalid('The request target must be a path on this host.')
  }
  return path
}

/** Whether a Host header is one valid name or address, with or without a port. */
export function isHost(host: string | string[] | undefined): host is string {
  return typeof host === 'string' && hostPattern.test(host)
}
