// Builds the record of an exchange from named fields, so that nothing else can get into it.
import { formatDollars } from '../money/money.ts'
import type { AttemptRecord, RequestRecord, TimesRecord } from '../store/requests.ts'
import { pluginThatThrew } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import type { Attempt } from './attempt.ts'
import { decisionOf } from './decision.ts'
import type { Exchange, Outcome } from './exchange.ts'
import { caller, charge, dropped, refusedTurn, reservation, usage } from './slots.ts'
import { timestamp } from '../telling/timestamp.ts'
import { causesOf, thrownCode } from '../thrown.ts'

/** The longest client request id and the longest model name that are kept, in characters. Both come from the client. */
const longestName = 128

/** The record of an exchange, however far it came. For an exchange under way: the record if it ended now. */
export function recordOf(exchange: Exchange, outcome: Outcome): RequestRecord {
  const { operation, headers } = exchange.request
  const who = exchange.find(caller)
  const metered = exchange.find(usage)
  const charged = exchange.find(charge)
  const last = exchange.attempts.at(-1)
  const channel = last?.channel
  const unsaid = last && exchange.find(dropped)?.get(last)
  const { requestedModel, streaming, sponsor } = exchange
  // The one that answered, or was asked last.
  const model = last?.model || exchange.model
  const amount = charged?.amount ?? 0n
  const held = charged?.reserved ?? exchange.find(reservation)?.amount
  const reason = (outcome.error ?? exchange.find(refusedTurn))?.details.reason
  const decision = decisionOf(exchange)
  return {
    request_id: exchange.id,
    time: timestamp(exchange.receivedAt),
    tenant: who?.tenant ?? null,
    project: who?.project ?? null,
    member: who?.member ?? null,
    key: who?.key ?? null,
    model: model === '' ? null : model.slice(0, longestName),
    requested_model: model === requestedModel ? null : requestedModel.slice(0, longestName),
    endpoint: operation.name,
    client_protocol: operation.protocol,
    channel: channel?.name ?? null,
    channel_protocol: channel?.protocol ?? null,
    status: outcome.status,
    error_code: outcome.error?.code ?? null,
    outcome: outcome.kind,
    streamed: streaming,
    usage: charged?.usage ?? metered?.usage ?? null,
    usage_source: charged?.source ?? metered?.source ?? null,
    cost_usd: formatDollars(amount),
    cost_nano: amount.toString(),
    price_version: charged?.priceVersion ?? null,
    reserved_nano: held?.toString() ?? null,
    attempts: exchange.attempts.map((attempt) => attemptRecord(attempt, exchange)),
    first_byte_ms: outcome.firstByteMs === undefined ? null : tenths(outcome.firstByteMs),
    duration_ms: tenths(outcome.durationMs),
    client_request_id: label(headers['x-request-id']),
    times: timesRecord(exchange, outcome.error ?? exchange.find(refusedTurn)),
    ...(unsaid && unsaid.length > 0 && { dropped: unsaid }),
    ...(who?.tags && { tags: who.tags }),
    ...(reason && { reason }),
    ...(decision && { decision }),
    ...(sponsor && { playground: { actor_kind: sponsor.kind, actor: sponsor.id } })
  }
}

function timesRecord({ startedAt, times }: Exchange, error: GatewayError | undefined): TimesRecord {
  const { bodyAt, hooksMs, calls, omitted, answeredBy } = times
  const record: TimesRecord =
    bodyAt === undefined
      ? { plugins_ms: tenths(hooksMs) }
      : { body_ms: tenths(bodyAt - startedAt), plugins_ms: tenths(hooksMs) }
  if (calls.length > 0)
    record.hooks = calls.map(({ plugin, hook, began, ms }) => ({
      plugin,
      hook,
      at_ms: tenths(began - startedAt),
      duration_ms: tenths(ms)
    }))
  if (omitted > 0) record.omitted = omitted
  const refusedBy = pluginThatThrew(error)
  if (refusedBy !== undefined) record.refused_by = refusedBy
  if (answeredBy !== undefined) record.answered_by = answeredBy
  return record
}

function attemptRecord(
  { channel, model, status, error, startedAt, headAt, firstByteAt, dispatched, endedAt = performance.now() }: Attempt,
  { passed, startedAt: began }: Exchange
): AttemptRecord {
  return {
    channel: channel.name,
    ...(passed.length > 0 && { model: model.slice(0, longestName) }),
    ...(channel.credentialName !== undefined && { credential: channel.credentialName }),
    status,
    error_code: error?.code,
    ...(error && failureOf(error, dispatched)),
    head_ms: headAt === undefined ? undefined : tenths(headAt - startedAt),
    first_byte_ms: firstByteAt === undefined ? undefined : tenths(firstByteAt - startedAt),
    duration_ms: tenths(endedAt - startedAt),
    at_ms: tenths(startedAt - began)
  }
}

/** The most characters of our own words about a failure. */
const longestError = 300

/** What the upstream said of its failure; where it said nothing, our own words. */
function failureOf(error: GatewayError, dispatched: boolean): Partial<AttemptRecord> {
  const { said } = error.details
  const told = said && Object.values(said).some((value) => value !== undefined)
  return {
    ...(told ? { upstream_error: said } : { error: wordsOf(error).slice(0, longestError) }),
    ...(!dispatched && { sent: false })
  }
}

/** The message, with the code of the system's error that is behind it, such as `ECONNREFUSED`. */
export function wordsOf(error: GatewayError): string {
  const code = causesOf(error)
    .map(thrownCode)
    .findLast((found) => found !== undefined)
  return code !== undefined && /^\w{1,64}$/.test(code) ? `${error.message} (${code})` : error.message
}

/** A client's own request id, cut and limited to visible ASCII; null when nothing is left. */
function label(header: string | string[] | undefined): string | null {
  if (header === undefined) return null
  const text = String(header)
    .slice(0, 1024)
    .replace(/[^\x21-\x7e]/g, '')
    .slice(0, longestName)
  return text === '' ? null : text
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}
