// The request log: one record per exchange, newest first.
import type { RequestQuery } from '../store/requests.ts'
import { convertUnit } from '../units.ts'
import type { AdminParts, Answer, Call } from './contract.ts'
import { invalidField, readLimit, shown } from './query.ts'

const exact = ['request_id', 'tenant', 'key', 'model'] as const

/** What the log can be asked for, beside a page. */
export const requestFilters = [...exact, 'since'] as const

const defaultLimit = 100

export async function listRequests({ query }: Call, { store }: AdminParts): Promise<Answer> {
  const asked: RequestQuery = { limit: readLimit(query, defaultLimit) }
  for (const name of [...exact, 'cursor'] as const) {
    const value = query.get(name)
    if (value !== undefined) asked[name] = value
  }
  const since = query.get('since')
  if (since !== undefined) asked.since = readTime(since)
  return { json: await store.requests.list(asked) }
}

function readTime(text: string): string {
  const time = convertUnit('date', text)
  if (typeof time !== 'number') throw invalidField('since', `since is ${shown(text)}: it must be a date or time like 2026-11-21 or 2026-11-21T08:00:00Z`)
  return new Date(time).toISOString()
}
