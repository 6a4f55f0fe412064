// Turns what an upstream says went wrong into the gateway's own error: whose fault, retryable, and free of secrets.
import type { Channel } from '../catalogue/catalogue.ts'
import { GatewayError } from '../errors.ts'
import type { ErrorCode } from '../errors.ts'
import type { Protocol } from '../protocols/index.ts'

/** Longest message passed on, in characters. */
const longest = 1000

/** Statuses by which an upstream refuses us, not the client: key, account, permission. */
const ours = new Set([401, 402, 403, 407])

/** An upstream's answer with a status other than 2xx; `body` is at most the first 64 KiB of it. */
export function errorFromResponse(
  protocol: Protocol,
  channel: Channel,
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: Buffer
): GatewayError {
  const said = protocol.readError(parse(body))
  const message = scrub(said.message, channel)
  if (ours.has(status)) return new GatewayError('upstream_auth_failed', 'The upstream refused the credentials of this gateway.')
  if (status === 429) {
    return new GatewayError('upstream_rate_limited', message || 'The upstream is rate limiting this gateway.', { retryAfterMs: retryAfter(headers) })
  }
  if (status >= 500 || status === 408) {
    const code: ErrorCode = 'upstream_bad_response'
    return new GatewayError(code, message || `The upstream answered with status ${status}.`, {
      status: status === 503 || status === 529 ? 503 : status === 504 ? 504 : 502,
      retryAfterMs: retryAfter(headers)
    })
  }
  if (status < 400) return new GatewayError('upstream_bad_response', 'The upstream answered with a redirect, which is never followed.')
  return new GatewayError('upstream_rejected', message || `The upstream refused the request with status ${status}.`, {
    status,
    type: said.type,
    shownCode: said.code,
    param: said.param
  })
}

/** An error that arrived inside a stream or body whose status was 2xx; `body` is the parsed event. */
export function errorFromBody(protocol: Protocol, channel: Channel, body: unknown): GatewayError {
  const said = protocol.readError(body)
  const message = scrub(said.message, channel) || 'The upstream reported an error.'
  const limited = said.code === '429' || /rate.?limit/.test(said.code ?? said.type ?? '')
  return new GatewayError(limited ? 'upstream_rate_limited' : 'upstream_bad_response', message, { shownCode: said.code, type: said.type })
}

function parse(body: Buffer): unknown {
  const text = body.toString('utf8').trim()
  // A web server's error page says nothing that a client could use.
  if (text.startsWith('<')) return ''
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Upstreams quote keys and addresses in their errors; clients must see neither. */
function scrub(message: string, channel: Channel): string {
  let text = message.replace(/<[^>]{1,200}>/g, ' ').slice(0, longest)
  for (const secret of [channel.credential, channel.baseUrl.host, channel.baseUrl.hostname]) {
    if (secret.length >= 4) text = text.replaceAll(secret, '[redacted]')
  }
  return text.replace(/\b(sk|key|AIza)[-_A-Za-z0-9*]{12,}/g, '[redacted]').trim()
}

/** RFC 9110 §10.2.3, and the millisecond form that OpenAI's clients read. In milliseconds from now. */
function retryAfter(headers: Readonly<Record<string, string | string[] | undefined>>): number | undefined {
  const exact = Number(headers['retry-after-ms'])
  if (headers['retry-after-ms'] !== undefined && exact >= 0) return exact
  const value = String(headers['retry-after'] ?? '')
  if (value === '') return undefined
  const seconds = Number(value)
  const ms = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined
}
