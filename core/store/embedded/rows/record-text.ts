// A request record as the store keeps it: what its row has no column for, as an array of values without their names,
// which takes a quarter of the bytes.
import { formatDollars } from '../../../money/money.ts'
import { timestamp } from '../../../telling/timestamp.ts'
import type { AttemptRecord, HookRecord, RecordGist, RequestRecord, TimesRecord } from '../../requests.ts'
import type { Usage } from '../../../money/usage.ts'
import { usualGist } from './usual-gist.ts'

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

/** Where the array has each member. */
const place = Object.fromEntries(members.map((name, at) => [name, at])) as Record<(typeof members)[number], number>
/** The place of what a record says was charged. */
export const costPlace = place.cost_nano

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
  const values = isUsual(record, time) ? valuesOf(record) : undefined
  return JSON.stringify(values && !values.includes(undefined) ? values : record)
}

/**
 * What the checksum of a row covers: all that its record is read from, or the place where that is. Of one that is kept
 * as an object that is its JSON, as the other columns repeat what it says.
 */
export function checkedText({ request_id, tenant, key, model, time, json }: RecordRow): string {
  return json.startsWith('{') ? json : `${request_id}\n${tenant ?? ''}\n${key ?? ''}\n${model ?? ''}\n${time}\n${json}`
}

/** Reads what a record is found and summed by, in an eighth of the time that the whole record takes. */
export function gistIn({ json }: Pick<RecordRow, 'json'>): RecordGist {
  const usual = usualGist(json)
  if (usual) return usual
  const found = JSON.parse(json) as RecordGist | unknown[]
  return Array.isArray(found) ? gistOf(found) : found
}

/** Reads a record. */
export function recordIn({ json, ...row }: RecordRow): RequestRecord {
  const found = JSON.parse(json) as RequestRecord | unknown[]
  return Array.isArray(found) ? recordOf(found, row) : found
}

function isUsual(
  { request_id, tenant, key, model, attempts, time: text, cost_nano, cost_usd }: RequestRecord,
  time: number
): boolean {
  return (
    Array.isArray(attempts) &&
    isTime(text, time) &&
    isAmount(cost_nano, cost_usd) &&
    isColumn(request_id) &&
    isColumn(tenant) &&
    isColumn(key) &&
    isColumn(model)
  )
}

/** Whether a column can have it: it has no half of a character, which JSON escapes. */
function isColumn(text: string | null | undefined): boolean {
  return typeof text === 'string' ? text.isWellFormed() : text === null
}

function isTime(text: string, time: number): boolean {
  return Number.isSafeInteger(time) && time >= 0 && time < latest && text === timestamp(time)
}

/** The end of the year 9999, in Unix milliseconds. */
const latest = 253_402_300_800_000

function isAmount(nano: string, dollars: string): boolean {
  return /^-?\d{1,30}$/.test(nano) && formatDollars(BigInt(nano)) === dollars
}

/** The array. A value is undefined where the record lacks a member. */
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
    usage &&
      packed([usage.input, usage.cached_input, usage.cache_write, usage.output, usage.reasoning], usage, usageMembers),
    record.usage_source,
    record.cost_nano,
    record.price_version,
    record.reserved_nano,
    attempts.map(packedAttempt),
    record.first_byte_ms,
    record.duration_ms,
    record.client_request_id,
    times ? packedTimes(times) : null
  ]
  if (Object.keys(record).length > known.size - (times ? 0 : 1))
    values.push(Object.fromEntries(Object.entries(record).filter(([name]) => !known.has(name))))
  return values
}

function packedAttempt(attempt: AttemptRecord): unknown[] {
  const { channel, status, head_ms, first_byte_ms, duration_ms, at_ms } = attempt
  return packed([channel, status, head_ms, first_byte_ms, duration_ms, at_ms], attempt, attemptMembers)
}

function packedTimes(times: TimesRecord): unknown[] {
  const { body_ms, plugins_ms, hooks } = times
  const others = hooks
    ? {
        ...times,
        hooks: hooks.map((hook) => packed([hook.plugin, hook.hook, hook.at_ms, hook.duration_ms], hook, hookMembers))
      }
    : times
  return packed([body_ms, plugins_ms], others, timesMembers)
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

function gistOf(values: readonly unknown[]): RecordGist {
  const read = values as readonly never[]
  const usage = values[place.usage] as readonly number[] | null
  const attempts = values[place.attempts] as readonly (readonly [channel: string])[]
  const others = values[members.length] as Pick<RequestRecord, 'tags'> | undefined
  return {
    project: read[place.project]!,
    member: read[place.member]!,
    endpoint: read[place.endpoint]!,
    channel: read[place.channel]!,
    status: read[place.status]!,
    error_code: read[place.error_code]!,
    outcome: read[place.outcome]!,
    cost_nano: read[place.cost_nano]!,
    first_byte_ms: read[place.first_byte_ms]!,
    duration_ms: read[place.duration_ms]!,
    // In the order of the members of a usage.
    usage: usage && { input: usage[0]!, cached_input: usage[1]!, cache_write: usage[2]!, output: usage[3]! },
    attempts: attempts.map(([channel]) => ({ channel })),
    ...(others?.tags && { tags: others.tags })
  }
}

function unpackedTimes(values: readonly unknown[]): TimesRecord {
  const { hooks, ...times } = unpacked<Omit<TimesRecord, 'hooks'> & { hooks?: readonly (readonly unknown[])[] }>(
    values,
    timesMembers
  )
  return { ...times, ...(hooks && { hooks: hooks.map((hook) => unpacked<HookRecord>(hook, hookMembers)) }) }
}

/**
 * The values of the members of an object that have these names, with null for one that there is not, and an object of
 * all else behind them. Whoever calls it has read them already, as looking each up by its name takes twice as long.
 */
function packed(values: unknown[], object: object, names: readonly string[]): unknown[] {
  let others = 0
  for (const name in object) if ((object as Record<string, unknown>)[name] !== undefined) others++
  for (let i = 0; i < names.length; i++) {
    values[i] ??= null
    if (values[i] !== null) others--
  }
  if (others === 0) return values
  const isOther = ([name, value]: [string, unknown]): boolean =>
    value !== undefined && (value === null || !names.includes(name))
  return [...values, Object.fromEntries(Object.entries(object).filter(isOther))]
}

/** The object that {@link packed} was made of. */
function unpacked<T>(values: readonly unknown[], names: readonly string[]): T {
  const object: Record<string, unknown> = {}
  for (const [i, name] of names.entries()) if (values[i] !== null) object[name] = values[i]
  return Object.assign(object, values[names.length]) as T
}
