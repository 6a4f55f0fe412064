// Turns what an upstream says went wrong into the gateway's own error: whose fault, retryable, and free of secrets.
import type { Attempt } from '../../contract/attempt.ts'
import type { Message } from '../../contract/message.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { GatewayError } from '../../errors.ts'
import type { UpstreamSaid } from '../../errors.ts'
import type { UpstreamError } from '../../protocols/protocol.ts'
import { blameOf } from '../../protocols/told/signs.ts'
import { resetOfSpent } from '../../protocols/told/limits.ts'
import type { UpstreamHeaders } from '../../transport/transport.ts'
import { cleanName, cleanText } from './redact.ts'
import { toldOf } from './withheld.ts'

/**
 * Longest pause that an upstream may ask for, and what is made of a request for one that does not say how long. In
 * milliseconds.
 */
const longestPause = 300_000
const defaultPause = 1000

/** Codes by which an upstream says that the request itself cannot be answered, by it or by another. */
const clients = new Set([
  'context_length_exceeded',
  'string_above_max_length',
  'content_filter',
  'content_policy_violation',
  'invalid_prompt'
])

/** Kinds of errors by which upstreams refuse a request, with the statuses that they have where there is one. */
const refusals: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  not_found_error: 404,
  request_too_large: 413
}

/** An upstream's answer with a status other than 2xx; `body` is at most the first 64 KiB of it. */
export function errorFromResponse(
  attempt: Attempt,
  status: number,
  headers: UpstreamHeaders,
  body: Buffer
): GatewayError {
  if (status < 400)
    return new GatewayError('upstream_bad_response', 'The upstream answered with a redirect, which is never followed.')
  const said = attempt.protocol.readError(parsed(body), headers)
  const otherwise = `The upstream answered with status ${status}.`
  const retryAfterMs = pauseOf(headers) ?? said.retryAfterMs ?? (status === 429 ? resetOfSpent(headers) : undefined)
  return errorOf(attempt, { ...said, retryAfterMs }, otherwise, { status })
}

/** An event of a stream whose status was 2xx, and which the protocol takes for an error. `begun`: after content. */
export function errorFromEvent(attempt: Attempt, event: Message, begun: boolean): GatewayError {
  const said = attempt.protocol.readError(event.json() ?? event.data.toString('utf8'))
  return errorOf(attempt, said, 'The upstream reported an error.', { begun })
}

/** A whole body whose status was 2xx, and which the protocol does not take for an answer. */
export function errorFromBody(attempt: Attempt, message: Message): GatewayError {
  const body = message.json()
  const said = body === undefined ? undefined : attempt.protocol.readError(body)
  if (!said || said.message === '')
    return new GatewayError('upstream_bad_response', 'The upstream sent a body that is no answer.')
  return errorOf(attempt, said, 'The upstream reported an error.', {})
}

/** What an answer, or its first event, says that has nothing but a blocked prompt, where another model may be asked. */
function blockInside(attempt: Attempt, message: Message): GatewayError | undefined {
  const reason = attempt.blockIsRefusal ? attempt.protocol.blockOf?.(message) : undefined
  if (reason === undefined) return undefined
  const said = { code: 'content_filter', message: cleanText(reason, attempt.channel) }
  return new GatewayError('upstream_rejected', 'The upstream blocked the prompt.', { said })
}

/**
 * What an answer, or an event before its content, tells of the account or of the model that was asked for, or of a
 * blocked prompt, in place of what it was to be: another channel or model may have it. Whatever else it says has
 * happened to it is an answer.
 */
export function refusalInside(attempt: Attempt, message: Message): GatewayError | undefined {
  const { protocol, upstreamModel } = attempt
  const blocked = blockInside(attempt, message)
  if (blocked) return blocked
  // What is only read again has failed long ago.
  if (!protocol.errorPlaces || upstreamModel === '' || message.lens?.type('error') !== 'object') return undefined
  const error = errorFromBody(attempt, message)
  return error.code === 'upstream_auth_failed' || error.code === 'upstream_model_missing' ? error : undefined
}

/** `status`: of an answer that was none; absent where it was told with another. `begun`: after content. */
function errorOf(
  { channel, protocol, asked, upstreamModel }: Attempt,
  said: UpstreamError,
  otherwise: string,
  { status: told, begun = false }: { status?: number; begun?: boolean }
): GatewayError {
  const status = said.status ?? told ?? statusOf(said)
  const pause = said.retryAfterMs === undefined ? undefined : Math.min(said.retryAfterMs, longestPause)
  const blame = blameOf(status, said, upstreamModel, told === undefined)
  const message = cleanText(said.message, channel)
  // What is said of the account and of its models is for the operator: clients can mend nothing of it.
  const cause = new Error(message === '' ? otherwise : message)
  const recorded = saidOf(said, message, channel)
  // An upstream that has sent content has begun the work, and may charge for it.
  const untaken = begun ? undefined : true
  if (blame !== undefined && blame !== 'request') {
    const { code, message: ours } = toldOf[blame]
    return new GatewayError(code, ours, {
      account: blame === 'account' ? true : undefined,
      untaken,
      said: recorded,
      cause
    })
  }
  if (status === 429) {
    return new GatewayError('upstream_rate_limited', 'The upstream is rate limiting this gateway.', {
      retryAfterMs: pause ?? defaultPause,
      untaken,
      said: recorded,
      cause
    })
  }
  // Whoever has begun to answer has accepted the request.
  if (isRefusal(status) && !begun) {
    // Another vendor's words for kinds of errors mean nothing to the client, nor do members of a request that it never
    // sent.
    const own = protocol.family === asked.family
    return new GatewayError('upstream_rejected', message || `The upstream refused the request with status ${status}.`, {
      status,
      type: own ? cleanName(said.type, channel) : undefined,
      shownCode: own || clients.has(said.code ?? '') ? cleanName(said.code, channel) : undefined,
      param: own ? cleanName(said.param, channel) : undefined,
      said: recorded
    })
  }
  return new GatewayError('upstream_bad_response', message || otherwise, {
    status: status === 503 || status === 529 ? 503 : status === 504 ? 504 : 502,
    untaken: told === undefined || unknowing.has(told) ? undefined : true,
    retryAfterMs: pause,
    said: recorded
  })
}

/** The most characters of an upstream's message that a record has. */
const longestRecorded = 300

/** What is recorded of an upstream's error: for operators, and without secrets all the same. */
function saidOf({ code, type, param }: UpstreamError, message: string, channel: Channel): UpstreamSaid {
  const names = { code: cleanName(code, channel), type: cleanName(type, channel), param: cleanName(param, channel) }
  const given = Object.entries({ ...names, message: message === '' ? undefined : message.slice(0, longestRecorded) })
  return Object.fromEntries(given.filter(([, value]) => value !== undefined))
}

/**
 * Statuses of whoever stands before an upstream and does not know what became of the request: RFC 9110 §15.5.9, §15.6.3
 * and §15.6.5; https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
 */
const unknowing = new Set([408, 502, 504, 520, 524])

/** The client's doing, where no sign says otherwise. */
function isRefusal(status: number): boolean {
  return status < 500 && status !== 408 && status !== 429
}

/** The status that an error would have had that came with none. */
function statusOf({ code = '', type = '' }: UpstreamError): number {
  const number = Number(code)
  if (number >= 400 && number <= 599) return number
  if (clients.has(code)) return 400
  const words = `${type} ${code}`.toLowerCase()
  if (/api.?key|authenticat|unauthorized/.test(words)) return 401
  if (words.includes('permission')) return 403
  if (/rate.?limit|quota|too.many/.test(words)) return 429
  return /overload|unavailable/.test(words) ? 503 : (refusals[type] ?? 502)
}

function parsed(body: Buffer): unknown {
  const text = body.toString('utf8').trim()
  // A web server's error page says nothing that a client could use.
  if (text.startsWith('<')) return ''
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * How long the upstream asks to be left alone, in milliseconds: RFC 9110 §10.2.3, and the millisecond forms of OpenAI
 * and Azure. Undefined when it does not say, or not so that it can be understood.
 */
function pauseOf(headers: UpstreamHeaders): number | undefined {
  const exact = headers['retry-after-ms'] ?? headers['x-ms-retry-after-ms']
  const after = headers['retry-after']
  const ms = read(exact) ?? read(after, 1000) ?? dated(after)
  return ms
}

function read(value: UpstreamHeaders[string], unit = 1): number | undefined {
  return typeof value === 'string' && /^\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) * unit : undefined
}

/** An HTTP date begins with the day of the week: `Date.parse` would make a date of nearly anything. */
function dated(value: UpstreamHeaders[string]): number | undefined {
  if (typeof value !== 'string' || !/^[A-Z][a-z]{2,8},? /.test(value)) return undefined
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}
