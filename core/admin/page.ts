// Cuts lists into pages: `{data, next}`, where `next` is the cursor of the following page.
import { GatewayError } from '../errors.ts'
import type { AdminRequest } from './contract.ts'

/** The parameters of every list. */
export const pageQuery = ['limit', 'cursor'] as const

const defaultLimit = 100
const mostLimit = 1000

/** How many entries are asked for. @throws GatewayError `invalid_field` */
export function limitOf({ limit }: AdminRequest['query']): number {
  if (limit === undefined) return defaultLimit
  const number = /^\d{1,4}$/.test(limit) ? Number(limit) : 0
  if (number >= 1 && number <= mostLimit) return number
  throw new GatewayError('invalid_field', `limit is ${JSON.stringify(limit.slice(0, 40))}: it must be a whole number from 1 to ${mostLimit}.`, { param: 'limit' })
}

/** A page of a list that is all in memory, ordered by `idOf`; the last id of a page is its cursor, so that changes in between do no harm. */
export function page<T>(items: readonly T[], idOf: (item: T) => string, query: AdminRequest['query']): { data: T[]; next: string | null } {
  const limit = limitOf(query)
  const { cursor = '' } = query
  const rest = items.filter((item) => idOf(item) > cursor).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
  const data = rest.slice(0, limit)
  return { data, next: rest.length > limit ? idOf(data.at(-1)!) : null }
}
