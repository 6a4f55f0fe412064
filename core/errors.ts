// The table of all errors that the gateway may answer with.
import { causesOf, thrownMessage, thrownStack } from './thrown.ts'

/**
 * The side that caused an error. It decides who can fix the error, and whether it counts against a channel's health.
 */
export type ErrorSource = 'client' | 'gateway' | 'upstream'

interface Row {
  status: number
  type: string
  source: ErrorSource
  /** Another channel may succeed where this one failed, so another attempt may be made. */
  retryable?: true
  /**
   * The same request may succeed later, so the SDK decides whether to retry. Absent: `x-should-retry: false` is sent.
   */
  later?: true
  /** The upstream was paid for an answer, and would be again, so the SDK must not retry. */
  costly?: true
}

const invalid = (status: number): Row => ({ status, type: 'invalid_request_error', source: 'client' })
const unauthenticated: Row = { status: 401, type: 'authentication_error', source: 'client' }
const forbidden: Row = { status: 403, type: 'permission_error', source: 'client' }
const missing: Row = { status: 404, type: 'not_found_error', source: 'client' }
const exhausted: Row = { status: 429, type: 'quota_error', source: 'client' }
const limited: Row = { status: 429, type: 'rate_limit_error', source: 'client', later: true }
const upstream = (status: number): Row => ({ status, type: 'upstream_error', source: 'upstream', retryable: true })
const unavailable: Row = { status: 503, type: 'upstream_error', source: 'gateway', later: true }

/**
 * Every error code that a client can see, with its status and type. The codes are stable, because clients and
 * dashboards match on them.
 */
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
  answer_not_inspected: { status: 502, type: 'api_error', source: 'gateway', costly: true },
  answer_too_large: { status: 502, type: 'api_error', source: 'gateway', costly: true },
  internal_error: { status: 500, type: 'api_error', source: 'gateway' },
  upstream_bad_response: upstream(502),
  upstream_connection_failed: upstream(502),
  upstream_stream_interrupted: upstream(502),
  upstream_auth_failed: upstream(502),
  upstream_model_missing: upstream(502),
  upstream_timeout_first_byte: upstream(504),
  upstream_timeout_idle: upstream(504),
  upstream_timeout_total: { status: 504, type: 'upstream_error', source: 'upstream', costly: true },
  session_expired: { ...invalid(408), later: true },
  client_stalled: { status: 499, type: 'client_closed', source: 'client' },
  no_available_channel: unavailable,
  upstream_credential_unavailable: { ...unavailable, retryable: true },
  overloaded: { ...unavailable, type: 'overloaded_error' },
  draining: { ...unavailable, type: 'overloaded_error' },
  billing_unavailable: { ...unavailable, type: 'api_error' },
  limits_unavailable: { ...unavailable, type: 'api_error' },
  price_missing: { status: 503, type: 'api_error', source: 'gateway' }
} as const satisfies Record<string, Row>

/** A code of {@link errorTable}. */
export type ErrorCode = keyof typeof errorTable

/** All codes. */
export const errorCodes = Object.keys(errorTable) as readonly ErrorCode[]

/** The level of a budget or a limit. */
export type Level = 'tenant' | 'project' | 'member' | 'key'

/** A refusal by a budget. Amounts are nano-dollars as decimal strings. */
export interface BudgetReason {
  readonly by: 'budget'
  readonly level: Level
  /** The scope whose budget it is, as balances name it: `project:acme/web`. */
  readonly scope: string
  /** `day`, `week`, `month`, `total`, a number of days such as `30d`, or `secret`: what one client secret may spend. */
  readonly per: string
  readonly limit_nano: string
  /** The most that the request may cost. */
  readonly asked_nano: string
  /** What was charged, and what other requests held. */
  readonly posted_nano: string
  readonly pending_nano: string
  /** What was neither charged nor held; never negative. */
  readonly left_nano: string
  /**
   * RFC 3339: when time alone will have freed enough for this request, if nothing more is charged. Null: never.
   */
  readonly free_at: string | null
}

/** A refusal by a limit. Its numbers are requests or tokens. */
export interface LimitReason {
  readonly by: 'limit'
  readonly level: Level
  readonly scope: string
  readonly limit_name: 'rps' | 'rpm' | 'tpm' | 'concurrency'
  /** The pattern of the models that the limit is for; null for one of all models. */
  readonly models: string | null
  readonly limit: number
  readonly asked: number
  /** What was taken of it and has not come back, and what was left; both in whole units. */
  readonly used: number
  readonly left: number
  /** RFC 3339: when enough will be free. Null for `concurrency`: when another request ends, which nobody knows. */
  readonly free_at: string | null
}

/**
 * A refusal by anything else, for operators: it may tell what the client must not know. It names no channel, as
 * operators of one tenant see it.
 */
export interface RuleReason {
  readonly by:
    | 'key'
    | 'endpoint'
    | 'model'
    | 'channel'
    | 'price'
    | 'reference'
    | 'repetition'
    | 'size'
    | 'origin'
    | 'room'
    | 'plugin'
  /** What was refused and why: a sentence without a full stop, and without secrets. */
  readonly what: string
  /** Where that is said, such as `limits.json_body` in gateway.yaml. Null where nothing is configured. */
  readonly where: string | null
  /** What an operator can do about it. Null where only the client can. */
  readonly remedy: string | null
}

/** Why a request was refused. Plain JSON, which the request record and the admin API show as it is. */
export type Reason = BudgetReason | LimitReason | RuleReason

/** What an upstream said of its own failure. Members that it did not send are absent. */
export interface UpstreamSaid {
  readonly code?: string
  readonly type?: string
  readonly param?: string
  readonly message?: string
}

/** What a code may be thrown with. All of it may reach the client, except `cause`, `said` and `reason`. */
export interface ErrorDetails {
  /** The request field at fault, for `error.param`. */
  param?: string | undefined
  /** Overrides the status of the table, for an upstream's 4xx that is passed on. */
  status?: number | undefined
  /** Overrides the type of the table, for the same errors. */
  type?: string | undefined
  /** The code for the client when it differs from the table's, such as an upstream's `context_length_exceeded`. */
  shownCode?: string | undefined
  /** When to try again, in milliseconds from now. It becomes `Retry-After` and `retry-after-ms`. */
  retryAfterMs?: number | undefined
  /** With `upstream_auth_failed`: the upstream complained about the account, so every other request would fail too. */
  account?: true | undefined
  /** The upstream certainly did not act on the request, which may therefore be sent to another. */
  untaken?: true | undefined
  /**
   * The upstream may have acted on the request and charged it, so the client's library must not repeat it by itself.
   */
  costly?: true | undefined
  /** The answer was there, and could not be kept for whoever comes for it: nobody can get it. */
  unkept?: true | undefined
  /** The channel cannot carry the request and was not asked; another channel may be able to. */
  elsewhere?: true | undefined
  /** Additional reply headers, for example `Allow`. */
  headers?: readonly (readonly [string, string])[] | undefined
  /** What an upstream said of its failure, without secrets. Kept in the request record, and never shown to clients. */
  said?: UpstreamSaid | undefined
  /** Kept in the request record, and never shown to clients: the message says what they may know of it. */
  reason?: Reason | undefined
  /** Logged only, and never shown to clients. */
  cause?: unknown
}

/** Marks these errors, so that `instanceof` also recognizes one that was made with another copy of this file. */
const brand = Symbol.for('sluice.GatewayError')

/** The only error that may reach a client. Any other error becomes `internal_error` and is logged. */
export class GatewayError extends Error {
  static override [Symbol.hasInstance](value: unknown): boolean {
    try {
      return typeof value === 'object' && value !== null && brand in value
    } catch {
      // A proxy may refuse to be asked.
      return false
    }
  }

  get [brand](): true {
    return true
  }

  readonly code: ErrorCode
  readonly status: number
  readonly type: string
  readonly source: ErrorSource
  /** Whether an attempt at another channel makes sense. Only asked while the client was shown nothing. */
  readonly retryable: boolean
  /** Whether waiting helps. If not, replies carry `x-should-retry: false`. */
  readonly later: boolean
  /** Whether another request would be paid for again. If so, replies carry `x-should-retry: false`. */
  readonly costly: boolean
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
    this.costly = details.costly ?? row.costly ?? false
    this.details = details
  }
}

/** The error of an exchange whose client left before there was anything to send, or all of it was sent. */
export function clientClosed(): GatewayError {
  return new GatewayError('client_closed', 'The client left before the answer was complete.')
}

/** The error for requests that arrive while the gateway stops. */
export function restarting(): GatewayError {
  return new GatewayError('draining', 'The gateway is being restarted. Try again.', { retryAfterMs: 1000 })
}

/** The error for a body above a limit of the configuration: `limits.json_body` or the like. */
export function bodyTooLarge(size: number, where: string): GatewayError {
  return new GatewayError(
    'request_too_large',
    `The request body is larger than ${size} bytes, the limit for this kind of request.`,
    { reason: { by: 'size', what: `the body has more than ${size} bytes`, where, remedy: `raise ${where}` } }
  )
}

/** The error for an unknown model. Models that the caller may not use have the same text, so that they stay hidden. */
export function unknownModel(name: string, reason?: Reason): GatewayError {
  const shown = name.length > 128 ? `${name.slice(0, 127)}…` : name
  return new GatewayError('model_not_found', `The model \`${shown}\` does not exist or this key may not use it.`, {
    param: 'model',
    reason
  })
}

/**
 * Turns anything thrown into an error that a client may see. Anything but a GatewayError is a bug: it becomes the
 * cause, which is logged, with the name of its plugin.
 */
export function asGatewayError(error: unknown, plugin?: string): GatewayError {
  // A copy of another version may have codes that this table lacks.
  if (error instanceof GatewayError && Object.hasOwn(errorTable, error.code)) return from(error, plugin)
  const cause = plugin === undefined ? error : new Error(`in the plugin ${plugin}`, { cause: error })
  const message = 'The gateway failed to handle this request. The error has been logged.'
  return from(new GatewayError('internal_error', message, { cause }), plugin)
}

/** Who threw an error first: the name of a plugin, or empty for the core. */
const throwers = new WeakMap<GatewayError, string>()

function from(error: GatewayError, plugin: string | undefined): GatewayError {
  if (plugin !== undefined && !throwers.has(error)) throwers.set(error, plugin)
  return error
}

/** As {@link asGatewayError}, for what the core throws while a plugin waits for it. */
export function ofCore(error: unknown): GatewayError {
  const own = asGatewayError(error)
  return from(own, '')
}

/** The plugin that refused something with this error; undefined when it was the core, or an upstream. */
export function pluginThatThrew(error: GatewayError | undefined): string | undefined {
  return (error && throwers.get(error)) || undefined
}

/** The messages of an error and its causes in one line, ending with the stack of the innermost. Never throws. */
export function reasons(error: unknown): string {
  const all = [error, ...causesOf(error)]
  const innermost = all.pop()
  return [...all.map(thrownMessage), thrownStack(innermost)].join(': ')
}
