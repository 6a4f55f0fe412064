// Records that others have written for an exchange, as its gateway was gone. Its own replaces one that was made by
// estimate, and where somebody else has charged for it, or corrected that, the record says what the journal says.
import { formatDollars } from '../../../money/money.ts'
import { noUsage, sumOf } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'
import { isRecovered } from '../../embedded/recovery/recovery.ts'
import type { RequestRecord } from '../../requests.ts'
import { day } from '../../window.ts'
import type { Transaction } from '../database/lane.ts'
import { locks } from '../database/locks.ts'
import { plain } from '../database/text.ts'
import { columnsOf, lineColumns, lineRows } from './line.ts'
import type { Line } from './line.ts'
import type { TrafficSums } from './traffic-sums.ts'

/** Where the record of a request is: its id, and when it arrived, in Unix milliseconds. */
export interface Place {
  readonly requestId: string
  readonly time: number
}

/** A record that was replaced. */
export interface Replaced {
  readonly before: Line
  readonly after: Line
}

/** The place of a record. */
export function placeOf({ record, time }: Line): Place {
  return { requestId: record.request_id, time }
}

/** Writes the own records of exchanges that only have one in its place. The others stay as they are. */
export async function replaceStandIns(transaction: Transaction, lines: readonly Line[]): Promise<Replaced[]> {
  const own = lines.filter(({ record }) => !isRecovered(record))
  const before = await recordsAt(transaction, own.map(placeOf))
  return write(
    transaction,
    own.flatMap((after) => {
      const found = before.get(plain(after.record.request_id))
      // Of two of one exchange, the first.
      before.delete(plain(after.record.request_id))
      return found && isRecovered(found.record) ? [{ before: found, after }] : []
    })
  )
}

/**
 * Whether a record may not say what was charged: it was made by estimate, or says that all of what was held was given
 * back. Of work whose gateway was killed behind the charge whoever ends it knows no more.
 */
export function mayBeWrong(record: RequestRecord): boolean {
  return isRecovered(record) || (record.reserved_nano !== null && record.usage_source === null)
}

/**
 * Has what writes records of others wait for what corrects records, and the reverse: of an end that is in the journal
 * meanwhile one of them knows. To be called before any record is written or locked.
 */
export async function inTurn(transaction: Transaction, what: 'writes' | 'corrects'): Promise<void> {
  await transaction.query(`select pg_advisory_xact_lock${what === 'writes' ? '_shared' : ''}($1)`, [locks.records])
}

/**
 * Has the records of requests say what the journal says, as something of them was ended by others, or that was
 * corrected. To be called before any record is written or locked.
 */
export async function correctEnded(
  transaction: Transaction,
  requestIds: readonly string[],
  sums: TrafficSums,
  now: number
): Promise<void> {
  await inTurn(transaction, 'corrects')
  await correctRecords(transaction, await placesOf(transaction, requestIds), sums, now)
}

/** The places of the records of requests; of one without a record there is none. */
async function placesOf(transaction: Transaction, requestIds: readonly string[]): Promise<Place[]> {
  const { rows } = await transaction.query<{ time: bigint; request_id: string }>(
    'select time, request_id from sluice.request where request_id = any ($1)',
    [requestIds.map(plain)]
  )
  return rows.map(({ time, request_id: requestId }) => ({ requestId, time: Number(time) }))
}

/**
 * Has records say what the journal says was charged for their requests, where these have ended, and the sums with them.
 * A part of a request has the day on which it began: from that of the request until `now`, in Unix milliseconds.
 */
export async function correctRecords(
  transaction: Transaction,
  places: readonly Place[],
  sums: TrafficSums,
  now: number
): Promise<void> {
  const before = await recordsAt(transaction, places)
  if (before.size === 0) return
  const { rows } = await transaction.query<Entry>(
    `select request_id, part, class, amount, usage_json, source, price_version, channel from sluice.journal
      where (day, request_id) in (select date '1970-01-01' + day, request_id
        from json_to_recordset($1) r(day int, request_id text)) and kind <> 'cost'
      order by part desc, class desc`,
    [
      JSON.stringify(
        [...before.values()].flatMap(({ record, time }) =>
          daysBetween(time, now).map((one) => ({ day: one, request_id: record.request_id }))
        )
      )
    ]
  )
  const replaced = [...before.values()].flatMap((line) => {
    const entries = rows.filter(({ request_id: id }) => id === line.record.request_id)
    if (!entries.some(({ part, class: name }) => part === '' && name === 'terminal')) return []
    const record = charged(line.record, entries)
    return record.cost_nano === line.record.cost_nano ? [] : [{ before: line, after: lineOf(record, line.time) }]
  })
  await write(transaction, replaced)
  await sums.write(
    transaction,
    replaced.map(({ after }) => after),
    replaced.map(({ before: gone }) => gone)
  )
}

/** The days since 1970 from one time until another, the first one at least. */
function daysBetween(from: number, to: number): number[] {
  const first = Math.floor(from / day)
  return Array.from({ length: Math.max(Math.floor(to / day) - first, 0) + 1 }, (_, more) => first + more)
}

/** What the journal says of a request. */
interface Entry {
  readonly request_id: string
  readonly part: string
  readonly class: string
  readonly amount: bigint
  readonly usage_json: string | null
  readonly source: RequestRecord['usage_source']
  readonly price_version: string | null
  readonly channel: string | null
}

/** The record with what was charged: the sum of the parts, the whole, and what corrects them, in this order. */
function charged(record: RequestRecord, entries: readonly Entry[]): RequestRecord {
  const sorted = entries.toSorted((one, other) => orderOf(one) - orderOf(other))
  const amount = entries.reduce((sum, entry) => sum + entry.amount, 0n)
  const all = sorted.flatMap(({ usage_json: usage }) => (usage === null ? [] : [JSON.parse(usage) as Usage]))
  const usage = all.reduce(sumOf, noUsage)
  const counted = Object.values(usage).some((units) => units !== 0)
  // Of each part its correction. Of parts that differ, those say it that the upstream has not counted.
  const sources = new Map(sorted.filter(({ source }) => source !== null).map((entry) => [entry.part, entry]))
  const parts = [...sources.values()]
  const told = sources.get('') ?? parts.findLast((entry) => entry.source !== 'upstream') ?? parts.at(-1)
  const { source, price_version: version } = told ?? {}
  return {
    ...record,
    channel: sorted.findLast(({ channel }) => channel !== null)?.channel ?? record.channel,
    usage: counted ? usage : null,
    usage_source: counted ? (source ?? null) : null,
    cost_usd: formatDollars(amount),
    cost_nano: String(amount),
    price_version: counted ? (version ?? null) : null
  }
}

function orderOf({ part, class: name }: Entry): number {
  return (part === '' ? 2 : 0) + (name === 'terminal' ? 0 : 1)
}

function lineOf(record: RequestRecord, time: number): Line {
  return { record, json: JSON.stringify(record), time }
}

/** The records of some places, by their ids as stored. They are locked. */
async function recordsAt(transaction: Transaction, places: readonly Place[]): Promise<Map<string, Line>> {
  if (places.length === 0) return new Map()
  const { rows } = await transaction.query<{ time: bigint; request_id: string; json: string }>(
    `select time, request_id, json from sluice.request where (time, request_id) in (
       select time, request_id from json_to_recordset($1) r(time bigint, request_id text))
     order by time, request_id for update`,
    [JSON.stringify(places.map(({ requestId, time }) => ({ time, request_id: plain(requestId) })))]
  )
  return new Map(
    rows.map(({ time, request_id: id, json }) => [
      id,
      { record: JSON.parse(json) as RequestRecord, json, time: Number(time) }
    ])
  )
}

async function write(transaction: Transaction, replaced: readonly Replaced[]): Promise<Replaced[]> {
  if (replaced.length === 0) return []
  const names = Object.keys(lineColumns)
  await transaction.query(
    `update sluice.request q set (written, ${names.join(', ')}) =
       (floor(extract(epoch from clock_timestamp()) * 1000), ${names.map((name) => `r.${name}`).join(', ')})
     from ${lineRows} where q.time = r.time and q.request_id = r.request_id`,
    [JSON.stringify(replaced.map(({ after }) => columnsOf(after)))]
  )
  return [...replaced]
}
