// A request record as the store keeps it: what its row has no column for, as an array of values without their names,
// which takes a quarter of the bytes.
import { formatDollars } from '../../../money/money.ts'
import type { AttemptRecord, HookRecord, RequestRecord, TimesRecord } from '../../requests.ts'
import type { Usage } from '../../../money/usage.ts'

/** What a record is read from: the columns of its row. `json`: its text here, or the whole record as an object. */
export interface RecordRow {
  readonly request_id: string
  readonly tenant: string | null
  readonly key: string | null
  readonly model: string | null
  /** Unix milliseconds. */
  readonly time: number | bigint
  readonly json: string
}

/** The members as an array has them. */
interface Read extends Omit<RequestRecord, 'usage' | 'attempts' | 'times'> {
  readonly usage: readonly unknown[] | null
  readonly attempts: readonly (readonly unknown[])[]
  readonly times: readonly unknown[] | null
}

/** The members in the order of the array. It is never changed: a member that comes later is among the others. */
const members = [
  'project',
  'member',
  'requested_model',
  'endpoint',
  'client_protocol',
  'channel',
  'channel_protocol',
  'status',
  'error_code',
  'outcome',
  'streamed',
  'usage',
  'usage_source',
  'cost_nano',
  'price_version',
  'reserved_nano',
  'attempts',
  'first_byte_ms',
  'duration_ms',
  'client_request_id',
  'times'
] as const satisfies readonly (keyof RequestRecord)[]
/** Likewise of what records have inside. */
const usageMembers = ['input', 'cached_input', 'cache_write', 'output', 'reasoning'] as const
const attemptMembers = ['channel', 'status', 'head_ms', 'first_byte_ms', 'duration_ms', 'at_ms'] as const
const timesMembers = ['body_ms', 'plugins_ms'] as const
const hookMembers = ['plugin', 'hook', 'at_ms', 'duration_ms'] as const

/** The place of what a record says was charged. */
export const costPlace = members.indexOf('cost_nano')

/** The members that an array says, with those that are columns, and one that follows from another. */
const known: ReadonlySet<string> = new Set([
  ...members,
  ...(['request_id', 'tenant', 'key', 'model', 'time', 'cost_usd'] as const)
])

/**
 * The text of a record whose time is `time`, in Unix milliseconds. One that would not be read as it is, such as one of
 * an earlier version that lacks a member, is kept as an object.
 */
export function textOfRecord(record: RequestRecord, time: number): string {
  return isUsual(record, time) ? JSON.stringify(valuesOf(record)) : JSON.stringify(record)
}

/**
 * What the checksum of a row covers: all that its record is read from. Of one that is kept as an object that is its
 * JSON, as the other columns repeat what it says.
 */
export function checkedText({ request_id, tenant, key, model, time, json }: RecordRow): string {
  return json.startsWith('[') ? [request_id, tenant, key, model, time, json].join('\n') : json
}

/** Reads a record. */
export function recordIn({ json, ...row }: RecordRow): RequestRecord {
  const found = JSON.parse(json) as RequestRecord | unknown[]
  return Array.isArray(found) ? recordOf(found, row) : found
}

function isUsual(record: RequestRecord, time: number): boolean {
  return (
    members.every((name) => record[name] !== undefined || name === 'times') &&
    isTime(record.time, time) &&
    isAmount(record.cost_nano, record.cost_usd) &&
    // A column has no half of a character, and JSON escapes it.
    [record.request_id, record.tenant, record.key, record.model].every((text) => text?.isWellFormed() !== false)
  )
}

let second = NaN
let secondText = ''

/** Most records are of the second of the one before, whose text is kept. */
function isTime(text: string, time: number): boolean {
  if (!Number.isSafeInteger(time) || time < 0 || time >= latest) return false
  const part = time % 1000
  if (time - part !== second) {
    second = time - part
    secondText = new Date(second).toISOString().slice(0, -4)
  }
  return text === `${secondText}${part < 10 ? '00' : part < 100 ? '0' : ''}${part}Z`
}

/** The end of the year 9999, in Unix milliseconds. */
const latest = 253_402_300_800_000

function isAmount(nano: string, dollars: string): boolean {
  return /^-?\d{1,30}$/.test(nano) && formatDollars(BigInt(nano)) === dollars
}

function valuesOf(record: RequestRecord): unknown[] {
  const { usage, attempts, times } = record
  // Written out, as it is made for every request: in the order of the members above.
  const values: unknown[] = [
    record.project,
    record.member,
    record.requested_model,
    record.endpoint,
    record.client_protocol,
    record.channel,
    record.channel_protocol,
    record.status,
    record.error_code,
    record.outcome,
    record.streamed,
    usage && packed(usage, usageMembers),
    record.usage_source,
    record.cost_nano,
    record.price_version,
    record.reserved_nano,
    attempts.map((attempt) => packed(attempt, attemptMembers)),
    record.first_byte_ms,
    record.duration_ms,
    record.client_request_id,
    times && packedTimes(times)
  ]
  if (Object.keys(record).length > known.size - (times ? 0 : 1))
    values.push(Object.fromEntries(Object.entries(record).filter(([name]) => !known.has(name))))
  return values
}

function packedTimes(times: TimesRecord): unknown[] {
  const { hooks } = times
  if (!hooks) return packed(times, timesMembers)
  return packed({ ...times, hooks: hooks.map((hook) => packed(hook, hookMembers)) }, timesMembers)
}

function recordOf(values: readonly unknown[], row: Omit<RecordRow, 'json'>): RequestRecord {
  const { usage, attempts, times, ...read } = Object.fromEntries(
    members.map((name, i) => [name, values[i]])
  ) as unknown as Read
  const { request_id, tenant, key, model, time } = row
  return {
    ...read,
    request_id,
    time: new Date(Number(time)).toISOString(),
    tenant,
    key,
    model,
    cost_usd: formatDollars(BigInt(read.cost_nano)),
    usage: usage && unpacked<Usage>(usage, usageMembers),
    attempts: attempts.map((attempt) => unpacked<AttemptRecord>(attempt, attemptMembers)),
    ...(times && { times: unpackedTimes(times) }),
    ...(values[members.length] as object | undefined)
  }
}

function unpackedTimes(values: readonly unknown[]): TimesRecord {
  const { hooks, ...times } = unpacked<Omit<TimesRecord, 'hooks'> & { hooks?: readonly (readonly unknown[])[] }>(
    values,
    timesMembers
  )
  return { ...times, ...(hooks && { hooks: hooks.map((hook) => unpacked<HookRecord>(hook, hookMembers)) }) }
}

/** The values of an object by names, null for one that there is not, and an object of all else behind them. */
function packed(object: object, names: readonly string[]): unknown[] {
  const values: unknown[] = Array(names.length).fill(null)
  let others: Record<string, unknown> | undefined
  for (const name of Object.keys(object)) {
    const value = (object as Record<string, unknown>)[name]
    if (value === undefined) continue
    const place = value === null ? -1 : names.indexOf(name)
    if (place !== -1) values[place] = value
    else (others ??= {})[name] = value
  }
  if (others) values.push(others)
  return values
}

/** The object that {@link packed} was given. */
function unpacked<T>(values: readonly unknown[], names: readonly string[]): T {
  const object: Record<string, unknown> = {}
  for (const [i, name] of names.entries()) if (values[i] !== null) object[name] = values[i]
  return Object.assign(object, values[names.length]) as T
}
