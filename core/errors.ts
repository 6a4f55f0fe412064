// The one table of everything the gateway may answer that is not a success.

/** Whose fault an error is: decides who may fix it and whether a channel's health is touched. */
export type ErrorSource = 'client' | 'gateway' | 'upstream'

interface Row {
  status: number
  type: string
  source: ErrorSource
  /** Another channel may succeed where this one failed. */
  retryable?: true
  /** The same request may succeed later: `x-should-retry` is left to the SDK. Absent: `x-should-retry: false`. */
  later?: true
}

const invalid = (status: number): Row => ({ status, type: 'invalid_request_error', source: 'client' })
const unauthenticated: Row = { status: 401, type: 'authentication_error', source: 'client' }
const forbidden: Row = { status: 403, type: 'permission_error', source: 'client' }
const missing: Row = { status: 404, type: 'not_found_error', source: 'client' }
const exhausted: Row = { status: 429, type: 'quota_error', source: 'client' }
const limited: Row = { status: 429, type: 'rate_limit_error', source: 'client', later: true }
const upstream = (status: number): Row => ({ status, type: 'upstream_error', source: 'upstream', retryable: true })
const unavailable: Row = { status: 503, type: 'upstream_error', source: 'gateway', later: true }

/** Every code a client can meet, with its status and type. Codes are stable: clients and dashboards match on them. */
const errorTable = {
  invalid_json: invalid(400),
  missing_field: invalid(400),
  invalid_field: invalid(400),
  unsupported_parameter: invalid(400),
  context_length_exceeded: invalid(400),
  protocol_mismatch: invalid(400),
  invalid_request: invalid(400),
  upstream_rejected: { status: 400, type: 'invalid_request_error', source: 'upstream' },
  missing_api_key: unauthenticated,
  invalid_api_key: unauthenticated,
  expired_api_key: unauthenticated,
  conflicting_credentials: unauthenticated,
  endpoint_not_allowed: forbidden,
  origin_not_allowed: forbidden,
  content_blocked: forbidden,
  request_not_inspected: forbidden,
  model_not_found: missing,
  response_not_found: missing,
  task_not_found: missing,
  route_not_found: missing,
  method_not_allowed: invalid(405),
  idempotency_conflict: invalid(409),
  idempotency_in_progress: { ...invalid(409), later: true },
  idempotency_answer_gone: invalid(409),
  task_under_way: invalid(409),
  request_timeout: { ...invalid(408), later: true },
  request_too_large: invalid(413),
  upgrade_required: invalid(426),
  unsupported_media_type: invalid(415),
  quota_tenant_exceeded: exhausted,
  quota_project_exceeded: exhausted,
  quota_member_exceeded: exhausted,
  quota_key_exceeded: exhausted,
  rate_limit_rps: limited,
  rate_limit_rpm: limited,
  rate_limit_tpm: limited,
  rate_limit_concurrency: limited,
  upstream_rate_limited: { status: 429, type: 'rate_limit_error', source: 'upstream', retryable: true, later: true },
  client_closed: { status: 499, type: 'client_closed', source: 'client' },
  answer_not_inspected: { status: 502, type: 'api_error', source: 'gateway' },
  internal_error: { status: 500, type: 'api_error', source: 'gateway' },
  upstream_bad_response: upstream(502),
  upstream_connection_failed: upstream(502),
  upstream_stream_interrupted: upstream(502),
  upstream_auth_failed: upstream(502),
  upstream_model_missing: upstream(502),
  upstream_timeout_first_byte: upstream(504),
  upstream_timeout_idle: upstream(504),
  upstream_timeout_total: { status: 504, type: 'upstream_error', source: 'upstream' },
  session_expired: { ...invalid(408), later: true },
  client_stalled: { status: 499, type: 'client_closed', source: 'client' },
  no_available_channel: unavailable,
  overloaded: { ...unavailable, type: 'overloaded_error' },
  draining: { ...unavailable, type: 'overloaded_error' },
  billing_unavailable: { ...unavailable, type: 'api_error' },
  price_missing: { status: 503, type: 'api_error', source: 'gateway' }
} as const satisfies Record<string, Row>

/** A stable machine code of {@link errorTable}. */
export type ErrorCode = keyof typeof errorTable

/** What a thrower may add to a code; all of it reaches the client except `cause`. */
export interface ErrorDetails {
  /** The request field at fault, for `error.param`. */
  param?: string | undefined
  /** Overrides the table's status, for an upstream's own 4xx that is passed on. */
  status?: number | undefined
  /** Overrides the table's type, likewise. */
  type?: string | undefined
  /** The code shown to the client when it differs from ours (an upstream's `context_length_exceeded`). */
  shownCode?: string | undefined
  /** When to try again, in milliseconds from now; becomes `Retry-After` and `retry-after-ms`. */
  retryAfterMs?: number | undefined
  /** Of `upstream_auth_failed`: the upstream spoke of the account, so that no other request would fare better. */
  account?: true | undefined
  /** Nothing has come of the request at its upstream, as that says itself or as is known: it may be sent to another. */
  untaken?: true | undefined
  /** It may have been made at the upstream, and charged: a library must not ask for it once more on its own. */
  costly?: true | undefined
  /** The channel cannot carry what the request asks for, and was not asked: another one may. */
  elsewhere?: true | undefined
  /** Extra reply headers, for example `Allow`. */
  headers?: readonly (readonly [string, string])[] | undefined
  /** For the log only. */
  cause?: unknown
}

/** By it an error of ours is known, also one that was made with another copy of this file. */
const brand = Symbol.for('sluice.GatewayError')

/** The only error that may reach a client. Anything else that is thrown becomes `internal_error` and is logged. */
export class GatewayError extends Error {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value
  }

  get [brand](): true {
    return true
  }

  readonly code: ErrorCode
  readonly status: number
  readonly type: string
  readonly source: ErrorSource
  /** Another attempt, on another channel, makes sense. Never set once output has been released. */
  readonly retryable: boolean
  /** Waiting helps: without it replies carry `x-should-retry: false`. */
  readonly later: boolean
  readonly details: ErrorDetails

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'GatewayError'
    const row: Row = errorTable[code]
    this.code = code
    this.status = details.status ?? row.status
    this.type = details.type ?? row.type
    this.source = row.source
    this.retryable = details.elsewhere ?? row.retryable ?? false
    this.later = row.later ?? false
    this.details = details
  }
}

/** What requests are told that come while the gateway stops. */
export function restarting(): GatewayError {
  return new GatewayError('draining', 'The gateway is being restarted. Try again.', { retryAfterMs: 1000 })
}

/** One text for models that do not exist and models that the caller may not know of. */
export function unknownModel(name: string): GatewayError {
  const shown = name.length > 128 ? `${name.slice(0, 127)}…` : name
  return new GatewayError('model_not_found', `The model \`${shown}\` does not exist or this key may not use it.`, {
    param: 'model'
  })
}

/**
 * Anything thrown as the error a client may see. What is no GatewayError is a bug: it is kept as the cause, for the
 * log, with the plugin it came from.
 */
export function asGatewayError(error: unknown, plugin?: string): GatewayError {
  // A copy of another version may have codes that are not in this table.
  if (error instanceof GatewayError && Object.hasOwn(errorTable, error.code)) return error
  const cause = plugin === undefined ? error : new Error(`in the plugin ${plugin}`, { cause: error })
  return new GatewayError('internal_error', 'The gateway failed to handle this request. The error has been logged.', {
    cause
  })
}

/** A chain of causes in one line, with the place of the innermost. */
export function reasons(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? (error.stack ?? String(error)) : `${error.message}: ${reasons(error.cause)}`
}
