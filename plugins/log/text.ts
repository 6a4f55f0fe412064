// Writes a record as a line of JSON, exactly as JSON.stringify would. It remembers the parts that most records share,
// which saves two microseconds per request.
import { renderUsage } from '../../core/contract/contract.ts'
import type { AttemptRecord, RequestRecord, TimesRecord } from '../../core/store/requests.ts'

/** The most parts that are remembered. */
const mostTexts = 1000
const spellsItself = /^[ !#-[\]-~]*$/

/**
 * The members about how a request was handled, which many records share. Parts are large, because appending a piece
 * costs as much as remembering a short one saves. `text` is the first run of them; the other fields are the texts
 * between the numbers after it.
 */
interface Way {
  record: RequestRecord
  text: string
  /**
   * The text up to the cost, the text from the cost to the hold, and the text from there to the times of the only
   * attempt; the last is undefined when no attempt was made.
   */
  source: string
  price: string
  attempt: string | undefined
}

/** Parts about the handling, by model. */
const ways = new Map<string | null, Way>()

/** The record as JSON. Numbers must be finite; ids, times and amounts must not need escapes. */
export function textOf(record: RequestRecord): string {
  const { usage, reserved_nano: reserved, attempts } = record
  const way = wayOf(record)
  return `{"request_id":"${record.request_id}","time":"${record.time}${callerOf(record)}${way.text}${usage === null ? 'null' : renderUsage(usage)}${way.source}${
    record.cost_usd
  }","cost_nano":"${record.cost_nano}${way.price}${reserved === null ? 'null' : `"${reserved}"`}${
    way.attempt !== undefined && toldBy(record)
      ? `${way.attempt}${timesOf(attempts[0]!)}`
      : `,"attempts":[${attempts.map((attempt) => JSON.stringify(attempt)).join()}`
  }],"first_byte_ms":${record.first_byte_ms === null ? 'null' : milliseconds(record.first_byte_ms)},"duration_ms":${milliseconds(record.duration_ms)},"client_request_id":${word(record.client_request_id)}${moreOf(record)}}`
}

/** The members that only some records have. */
function moreOf({ times, dropped, tags, reason, decision, playground }: RequestRecord): string {
  let text = times ? `,"times":${timesText(times)}` : ''
  text += dropped ? `,"dropped":${JSON.stringify(dropped)}` : ''
  if (tags) text += `,"tags":${JSON.stringify(tags)}`
  if (reason) text += `,"reason":${JSON.stringify(reason)}`
  if (decision) text += `,"decision":${decisionText(decision)}`
  if (playground) text += `,"playground":${JSON.stringify(playground)}`
  return text
}

function timesText(times: TimesRecord): string {
  const { body_ms, plugins_ms } = times
  const { hooks, refused_by, answered_by } = times
  // Most have nothing else.
  return body_ms !== undefined && !hooks && refused_by === undefined && answered_by === undefined
    ? `{"body_ms":${milliseconds(body_ms)},"plugins_ms":${milliseconds(plugins_ms)}}`
    : JSON.stringify(times)
}

/** The decisions that many records share, as text. */
const decisions = new WeakMap<object, string>()

function decisionText(decision: NonNullable<RequestRecord['decision']>): string {
  let text = decisions.get(decision)
  if (text === undefined) decisions.set(decision, (text = JSON.stringify(decision)))
  return text
}

/** The members about the caller. Those of 100,000 keys in turn take longer to look up than to write. */
function callerOf({ tenant, project, member, key }: RequestRecord): string {
  return `","tenant":${word(tenant)},"project":${word(project)},"member":${word(member)},"key":${word(key)},`
}

/** The part about how a request was handled, how it ended, and which price applied. */
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
  return keep(model, {
    record,
    text: `${membersOf({ model, requested_model, endpoint, client_protocol, channel, channel_protocol, status, error_code, outcome, streamed })},"usage":`,
    source: `,${membersOf({ usage_source })},"cost_usd":"`,
    price: `",${membersOf({ price_version })},"reserved_nano":`,
    attempt: channel === null ? undefined : `,"attempts":[{${membersOf({ channel, status })},"head_ms":`
  })
}

function membersOf(members: object): string {
  return JSON.stringify(members).slice(1, -1)
}

function keep(model: string | null, way: Way): Way {
  // Clients may send any number of names of models that do not exist.
  if (ways.size >= mostTexts) ways.clear()
  ways.set(model, way)
  return way
}

/** Whether the record has one attempt, and all that is known of it is in the members of the record. */
function toldBy({ attempts, channel, status }: RequestRecord): boolean {
  if (attempts.length !== 1) return false
  const [attempt] = attempts as [AttemptRecord]
  return (
    attempt.channel === channel &&
    attempt.credential === undefined &&
    attempt.status === status &&
    attempt.error_code === undefined &&
    attempt.head_ms !== undefined &&
    attempt.first_byte_ms !== undefined &&
    attempt.at_ms !== undefined
  )
}

function timesOf({ head_ms, first_byte_ms, duration_ms, at_ms }: AttemptRecord): string {
  return `${milliseconds(head_ms!)},"first_byte_ms":${milliseconds(first_byte_ms!)},"duration_ms":${milliseconds(duration_ms)},"at_ms":${milliseconds(at_ms!)}}`
}

/**
 * The texts of numbers in steps of 0.1, made on first use. A record has eight such numbers; remembering them saves a
 * microsecond.
 */
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
