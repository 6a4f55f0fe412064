// A record as a line of JSON: the text that JSON.stringify makes of it, in half the time, which counts once a request.
import type { AttemptRecord, RequestRecord } from '../../core/store/requests.ts'
import type { Usage } from '../../core/usage.ts'

/** Texts remembered of each kind. */
const mostTexts = 1000
/** Of a usage: those that are always there. */
const commonClasses = 5
const spellsItself = /^[ !#-[\]-~]*$/

/** A run of members that most records share with one before, with its text. */
interface Known {
  record: RequestRecord
  text: string
}

/** By the name of the key, and by the model. */
const callers = new Map<string | null, Known>()
const ways = new Map<string | null, Known>()

/** Numbers must be finite; ids, times and amounts are taken to need no escapes. */
export function textOf(record: RequestRecord): string {
  const { usage_source: source, price_version: version, reserved_nano: reserved } = record
  return `{"request_id":"${record.request_id}","time":"${record.time}",${callerOf(record)},${wayOf(record)},"usage":${usageOf(record.usage)},"usage_source":${
    source === null ? 'null' : `"${source}"`},"cost_usd":"${record.cost_usd}","cost_nano":"${record.cost_nano}","price_version":${
    word(version)},"reserved_nano":${reserved === null ? 'null' : `"${reserved}"`},"attempts":[${attemptsOf(record.attempts)}],"first_byte_ms":${
    record.first_byte_ms},"duration_ms":${record.duration_ms},"client_request_id":${word(record.client_request_id)}}`
}

function callerOf(record: RequestRecord): string {
  const { tenant, project, member, key } = record
  const known = callers.get(key)
  if (known) {
    const other = known.record
    if (other.tenant === tenant && other.project === project && other.member === member) return known.text
  }
  return keep(callers, key, record, { tenant, project, member, key })
}

/** The way that a request went, and how it ended. */
function wayOf(record: RequestRecord): string {
  const { model, endpoint, client_protocol, channel, channel_protocol, status, error_code, outcome, streamed } = record
  const known = ways.get(model)
  if (known) {
    const other = known.record
    if (
      other.status === status && other.error_code === error_code && other.outcome === outcome && other.streamed === streamed && other.channel === channel &&
       other.endpoint === endpoint && other.client_protocol === client_protocol && other.channel_protocol === channel_protocol
    ) return known.text
  }
  return keep(ways, model, record, { model, endpoint, client_protocol, channel, channel_protocol, status, error_code, outcome, streamed })
}

function keep(texts: Map<string | null, Known>, name: string | null, record: RequestRecord, members: object): string {
  const text = JSON.stringify(members).slice(1, -1)
  // Names of models that do not exist are made up by clients.
  if (texts.size >= mostTexts) texts.clear()
  texts.set(name, { record, text })
  return text
}

function usageOf(usage: Usage | null): string {
  if (usage === null) return 'null'
  if (Object.keys(usage).length > commonClasses) return JSON.stringify(usage)
  return `{"input":${usage.input},"cached_input":${usage.cached_input},"cache_write":${usage.cache_write},"output":${usage.output},"reasoning":${usage.reasoning}}`
}

function attemptsOf(attempts: readonly AttemptRecord[]): string {
  if (attempts.length !== 1) return attempts.map((attempt) => JSON.stringify(attempt)).join()
  const { channel, status, error_code, first_byte_ms, duration_ms } = attempts[0]!
  if (status === undefined || error_code !== undefined || first_byte_ms === undefined) return JSON.stringify(attempts[0])
  return `{"channel":${word(channel)},"status":${status},"first_byte_ms":${first_byte_ms},"duration_ms":${duration_ms}}`
}

function word(text: string | null): string {
  if (text === null) return 'null'
  return spellsItself.test(text) ? `"${text}"` : JSON.stringify(text)
}
