// A record as a line of JSON: the text that JSON.stringify makes of it. Remembering what most records share saves two
// microseconds a request.
import { renderUsage } from '../../core/contract/contract.ts'
import type { AttemptRecord, RequestRecord } from '../../core/store/requests.ts'

/** Texts remembered of each kind. */
const mostTexts = 1000
const spellsItself = /^[ !#-[\]-~]*$/

/**
 * What most records share with one before. Every piece that is put into a text costs as much as a short one costs to
 * remember.
 */
interface Known {
  record: RequestRecord
  text: string
}

/** Of the way that a request went, beside the first run of members, what stands between its numbers. */
interface Way extends Known {
  /**
   * Until the cost, from the cost to what was held, and from there to the numbers of the only attempt, if that is what
   * the way tells of it.
   */
  source: string
  price: string
  attempt: string | undefined
}

/** By the name of the key, and by the model. */
const callers = new Map<string | null, Known>()
const ways = new Map<string | null, Way>()

/** Numbers must be finite; ids, times and amounts are taken to need no escapes. */
export function textOf(record: RequestRecord): string {
  const { usage, reserved_nano: reserved, attempts } = record
  const way = wayOf(record)
  return `{"request_id":"${record.request_id}","time":"${record.time}${callerOf(record).text}${way.text}${usage === null ? 'null' : renderUsage(usage)}${way.source}${
    record.cost_usd
  }","cost_nano":"${record.cost_nano}${way.price}${reserved === null ? 'null' : `"${reserved}"`}${
    way.attempt !== undefined && toldBy(record)
      ? `${way.attempt}${timesOf(attempts[0]!)}`
      : `,"attempts":[${attempts.map((attempt) => JSON.stringify(attempt)).join()}`
  }],"first_byte_ms":${record.first_byte_ms === null ? 'null' : milliseconds(record.first_byte_ms)},"duration_ms":${milliseconds(record.duration_ms)},"client_request_id":${word(record.client_request_id)}${record.dropped ? `,"dropped":${JSON.stringify(record.dropped)}` : ''}}`
}

function callerOf(record: RequestRecord): Known {
  const { tenant, project, member, key } = record
  const known = callers.get(key)
  if (known) {
    const other = known.record
    if (other.tenant === tenant && other.project === project && other.member === member) return known
  }
  return keep(callers, key, { record, text: `",${membersOf({ tenant, project, member, key })},` })
}

/** The way that a request went, how it ended, and what its price was. */
function wayOf(record: RequestRecord): Way {
  const {
    model,
    requested_model,
    endpoint,
    client_protocol,
    channel,
    channel_protocol,
    status,
    error_code,
    outcome,
    streamed,
    usage_source,
    price_version
  } = record
  const known = ways.get(model)
  if (known) {
    const other = known.record
    if (
      other.status === status &&
      other.error_code === error_code &&
      other.outcome === outcome &&
      other.streamed === streamed &&
      other.channel === channel &&
      other.endpoint === endpoint &&
      other.client_protocol === client_protocol &&
      other.channel_protocol === channel_protocol &&
      other.requested_model === requested_model &&
      other.usage_source === usage_source &&
      other.price_version === price_version
    )
      return known
  }
  return keep(ways, model, {
    record,
    text: `${membersOf({ model, requested_model, endpoint, client_protocol, channel, channel_protocol, status, error_code, outcome, streamed })},"usage":`,
    source: `,${membersOf({ usage_source })},"cost_usd":"`,
    price: `",${membersOf({ price_version })},"reserved_nano":`,
    attempt: channel === null ? undefined : `,"attempts":[{${membersOf({ channel, status })},"first_byte_ms":`
  })
}

function membersOf(members: object): string {
  return JSON.stringify(members).slice(1, -1)
}

function keep<K extends Known>(texts: Map<string | null, K>, name: string | null, known: K): K {
  // Names of models that do not exist are made up by clients.
  if (texts.size >= mostTexts) texts.clear()
  texts.set(name, known)
  return known
}

/** Its attempts are one that went the way of the record. */
function toldBy({ attempts, channel, status }: RequestRecord): boolean {
  if (attempts.length !== 1) return false
  const [attempt] = attempts as [AttemptRecord]
  return (
    attempt.channel === channel &&
    attempt.status === status &&
    attempt.error_code === undefined &&
    attempt.first_byte_ms !== undefined
  )
}

function timesOf({ first_byte_ms, duration_ms }: AttemptRecord): string {
  return `${milliseconds(first_byte_ms!)},"duration_ms":${milliseconds(duration_ms)}}`
}

/** Texts of numbers of tenths, where they were asked for. A record has four, and remembering them saves 0.6 µs. */
const tenths: (string | undefined)[] = Array(10_000).fill(undefined)

function milliseconds(value: number): string {
  const tenth = Math.round(value * 10)
  if (!(tenth >= 0 && tenth < tenths.length && tenth / 10 === value)) return String(value)
  return (tenths[tenth] ??= String(value))
}

function word(text: string | null): string {
  if (text === null) return 'null'
  return spellsItself.test(text) ? `"${text}"` : JSON.stringify(text)
}
