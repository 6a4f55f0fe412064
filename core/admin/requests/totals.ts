// The routes beside the list of requests: how many there are over time, and what they can be filtered by.
import { errorCodes } from '../../errors.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, shown } from '../api/query.ts'
import { count, listOf, nullable, object, said, text, time } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'
import { readRequests } from './requests.ts'

const defaultParts = 60
const mostParts = 600
/** The most names of a kind that are offered. */
const mostNames = 500

/** The answer of {@link countRequests}. */
export const totalsShape: Shape = object({
  data: listOf(
    object({
      at: said(time, 'Where the part begins.'),
      requests: count,
      refused: said(count, 'With a status from 400 to 499.'),
      failed: said(count, 'With a status of 500 or more.')
    })
  ),
  next: nullable(text),
  from: time,
  until: time,
  part_ms: said(count, 'How long a part is.'),
  requests: count,
  refused: count,
  failed: count,
  counted_from: said(nullable(time), 'What came before is not counted, because it is too much; null when all is.')
})

/** Counts requests over time, in 60 parts unless `parts` says otherwise. */
export async function countRequests({ query }: Call, { store }: AdminParts): Promise<Answer> {
  const { from, to, width, counted, parts } = await store.requests.totals(readRequests(query, 1), readParts(query))
  const sum = (name: 'requests' | 'refused' | 'failed'): number => parts.reduce((all, part) => all + part[name], 0)
  return {
    json: {
      data: parts.map(({ at, ...counts }) => ({ at: timeOf(at), ...counts })),
      next: null,
      from: timeOf(from),
      until: timeOf(to),
      part_ms: width,
      requests: sum('requests'),
      refused: sum('refused'),
      failed: sum('failed'),
      counted_from: counted > from ? timeOf(counted) : null
    }
  }
}

const names = listOf(text)

/** The answer of {@link listFilters}. */
export const filtersShape: Shape = object(
  { outcome: names, code: names, endpoint: names, model: names, tenant: names, channel: names },
  { optional: ['model', 'tenant', 'channel'] }
)

/** Lists the values that requests can have, as far as they are known without looking into the log. */
export function listFilters({ by }: Call, { generations, operations }: AdminParts): Answer {
  const { channels, models, tenants } = generations.current.catalogue
  const some = (all: Iterable<string>): string[] => [...new Set(all)].slice(0, mostNames)
  return {
    json: {
      outcome: ['completed', 'rejected', 'failed', 'aborted'],
      code: errorCodes,
      endpoint: some(operations.map(({ name }) => name)).sort(),
      // Actors of one tenant are told of nothing that may be of another.
      ...(by.tenant === null && {
        model: some(models.keys()),
        tenant: some(tenants.keys()),
        channel: some(channels.keys())
      })
    }
  }
}

function readParts(query: Call['query']): number {
  const text = query.get('parts')
  if (text === undefined) return defaultParts
  const parts = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (parts < 1 || parts > mostParts)
    throw invalidField('parts', `parts is ${shown(text)}: it must be a whole number from 1 to ${mostParts}`)
  return parts
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
