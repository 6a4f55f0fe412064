// The route of the request log: one record per exchange, newest first.
import { formatDollars } from '../money/money.ts'
import { costLines } from '../money/price.ts'
import type { RequestQuery, RequestRecord } from '../store/requests.ts'
import type { AdminParts, Answer, Call } from './contract.ts'
import { readLimit, readTime } from './query.ts'

const exact = ['request_id', 'tenant', 'key', 'model'] as const

/** The parameters that select records. */
export const requestFilters = [...exact, 'since'] as const

/** What actors of one tenant do not see of a record: how the gateway is set up, and what its upstreams said. */
export const hiddenOfRequests: readonly (keyof RequestRecord)[] = [
  'channel',
  'channel_protocol',
  'attempts',
  'decision'
]

const defaultLimit = 100

/** Lists records with the lines of their charges. Without `limit`, a page has 100 of them. */
export async function listRequests({ query }: Call, { store }: AdminParts): Promise<Answer> {
  const asked: RequestQuery = { limit: readLimit(query, defaultLimit) }
  for (const name of [...exact, 'cursor'] as const) {
    const value = query.get(name)
    if (value !== undefined) asked[name] = value
  }
  const since = readTime(query, 'since')
  if (since !== undefined) asked.since = new Date(since).toISOString()
  const { data, next } = await store.requests.list(asked)
  return { json: { data: data.map((record) => ({ ...record, cost_lines: linesOf(record, store) })), next } }
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
