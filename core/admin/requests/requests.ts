// The route of the request log: one record per exchange, newest first.
import { formatDollars } from '../../money/money.ts'
import { costLines } from '../../money/price.ts'
import { convertUnit } from '../../options/units.ts'
import type { Bounds, RequestQuery, RequestRecord } from '../../store/requests.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, readLimit, readTime, shown } from '../api/query.ts'

const texts = ['tenant', 'project', 'member', 'key', 'model', 'endpoint', 'channel', 'code', 'outcome', 'tag'] as const

/** The parameters that select by a text, and those that leave out what would be selected. */
const exact = ['request_id', ...texts] as const
const without = (['status', ...texts] as const).map((name) => `not_${name}` as const)

/** The parameters that bound a number, each with what reads it. */
const bounds = {
  since: ['time', 'from', readTime],
  until: ['time', 'to', readTime],
  cost_min: ['cost', 'from', readCost],
  cost_max: ['cost', 'to', readCost],
  duration_min: ['duration', 'from', readDuration],
  duration_max: ['duration', 'to', readDuration]
} as const

/** The parameters that select records. */
export const requestFilters = [
  ...exact,
  'status',
  ...(Object.keys(bounds) as (keyof typeof bounds)[]),
  ...without
] as const

/** The parameters that actors of one tenant may not use: they tell how the gateway is set up. */
export const closedOfRequests = ['channel', 'not_channel'] as const

/** What actors of one tenant do not see of a record: how the gateway is set up, and what its upstreams said. */
export const hiddenOfRequests: readonly (keyof RequestRecord)[] = [
  'channel',
  'channel_protocol',
  'attempts',
  'times',
  'decision'
]

const defaultLimit = 100

/** Lists records with the lines of their charges. Without `limit`, a page has 100 of them. */
export async function listRequests({ query, left }: Call, { store }: AdminParts): Promise<Answer> {
  const { data, next } = await store.requests.list(readRequests(query, readLimit(query, defaultLimit)), left)
  return { json: { data: data.map((record) => showRecord(record, store)), next } }
}

/** Reads which records a query asks for, at most `limit` of them. */
export function readRequests(query: Call['query'], limit: number): RequestQuery {
  const asked: RequestQuery = { limit }
  for (const name of [...exact, 'cursor'] as const) {
    const value = query.get(name)
    if (value !== undefined) asked[name] = value
  }
  const status = readStatus(query, 'status')
  if (status) asked.status = status
  const not = readWithout(query)
  if (not) asked.not = not
  for (const [name, [field, end, read]] of Object.entries(bounds)) {
    const value = read(query, name)
    if (value !== undefined) Object.assign(asked, { [field]: { ...asked[field], [end]: value } })
  }
  return asked
}

/** A record as it is shown, with the lines of its charge. */
export function showRecord(record: RequestRecord, store: AdminParts['store']): object {
  return { ...record, cost_lines: linesOf(record, store) }
}

/**
 * The lines of a charge: what was paid for, and at which price. Their sum, rounded once, is the cost. Null when nothing
 * was charged.
 */
function linesOf({ usage, price_version }: RequestRecord, { ledger }: AdminParts['store']): object[] | null {
  const price = price_version === null || price_version === undefined ? undefined : ledger.price(price_version)
  if (!usage || !price) return null
  return costLines(usage, price).map(({ perMillion, ...line }) => ({
    ...line,
    usd_per_million: formatDollars(perMillion)
  }))
}

/** A cost in nano-dollars, as records have it. */
function readCost(query: Call['query'], name: string): string | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const nano = convertUnit('usd', text)
  if (typeof nano === 'bigint') return nano.toString()
  throw invalidField(name, `${name} is ${shown(text)}: it must be an amount of US dollars like 0.25`)
}

function readDuration(query: Call['query'], name: string): number | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const ms = convertUnit('duration', text)
  if (typeof ms !== 'number')
    throw invalidField(name, `${name} is ${shown(text)}: it must be a duration like 500ms, 2s or 1m`)
  return ms
}

/** What a query leaves out; undefined for nothing. */
function readWithout(query: Call['query']): RequestQuery['not'] {
  const not: NonNullable<RequestQuery['not']> = {}
  for (const name of texts) {
    const value = query.get(`not_${name}`)
    if (value !== undefined) not[name] = value
  }
  const status = readStatus(query, 'not_status')
  if (status) not.status = status
  return Object.keys(not).length === 0 ? undefined : not
}

/** One status, or a hundred of them: `429` or `4xx`. */
function readStatus(query: Call['query'], name: string): Bounds<number> | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const [, digits = '', rest = ''] = /^([1-5])(\d\d|xx)$/.exec(text) ?? []
  if (digits === '') throw invalidField(name, `${name} is ${shown(text)}: it must be like 429 or 4xx`)
  if (rest !== 'xx') return { from: Number(text), to: Number(text) }
  return { from: Number(digits) * 100, to: Number(digits) * 100 + 99 }
}
