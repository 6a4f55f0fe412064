// Reads the parameters of queries, and makes the pages of lists.
import { GatewayError } from '../../errors.ts'
import { convertUnit } from '../../options/units.ts'
import { suggestion } from '../../options/suggest.ts'
import type { Page } from './contract.ts'

/** The parameters that every list takes. */
export const paging = ['limit', 'cursor'] as const

const mostItems = 1000

/**
 * Reads a query.
 * @throws GatewayError naming a parameter that is unknown or empty, or occurs twice
 */
export function readQuery(text: string, known: readonly string[]): ReadonlyMap<string, string> {
  const query = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (!known.includes(name))
      throw invalidField(shorten(name), `unknown parameter ${shown(name)}${suggestion(name, known)}`)
    if (query.has(name)) throw invalidField(name, `${name} is there twice: keep one`)
    if (value === '') throw invalidField(name, `${name} is empty: give it a value or leave it out`)
    query.set(name, value)
  }
  return query
}

/**
 * Reads how many items are asked for.
 * @throws GatewayError when it is not a number from 1 to 1000
 */
export function readLimit(query: ReadonlyMap<string, string>, otherwise: number): number {
  const text = query.get('limit')
  if (text === undefined) return otherwise
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > mostItems)
    throw invalidField('limit', `limit is ${shown(text)}: it must be a whole number from 1 to ${mostItems}`)
  return limit
}

/**
 * Reads a date or time as Unix milliseconds; undefined when it is not asked for.
 * @throws GatewayError when it is none
 */
export function readTime(query: ReadonlyMap<string, string>, name: string): number | undefined {
  const text = query.get(name)
  if (text === undefined) return undefined
  const time = convertUnit('date', text)
  if (typeof time === 'number') return time
  throw invalidField(
    name,
    `${name} is ${shown(text)}: it must be a date or time like 2026-11-21 or 2026-11-21T08:00:00Z`
  )
}

/** The items whose members are those that the query asks for. `filters` are names of both. */
export function matching<T extends object>(
  items: readonly T[],
  filters: readonly (keyof T & string)[],
  query: ReadonlyMap<string, string>
): T[] {
  const wanted = filters.filter((name) => query.has(name))
  return items.filter((item) => wanted.every((name) => item[name] === query.get(name)))
}

/**
 * Makes a page of a list in memory: the items after the cursor, ordered by id (in UTF-16 code units). The cursor names
 * the last item shown, so that items which come or go between two pages make no other item appear twice or not at all.
 */
export function pageOf<T>(items: readonly T[], idOf: (item: T) => string, query: ReadonlyMap<string, string>): Page<T> {
  const limit = readLimit(query, mostItems)
  const after = readCursor(query.get('cursor'))
  const rest = items
    .map((item) => ({ item, id: idOf(item) }))
    .filter(({ id }) => after === undefined || id > after)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
  const data = rest.slice(0, limit)
  return {
    data: data.map(({ item }) => item),
    next: rest.length > limit ? Buffer.from(data.at(-1)!.id).toString('base64url') : null
  }
}

function readCursor(cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  const id = Buffer.from(cursor, 'base64url').toString()
  if (Buffer.from(id).toString('base64url') !== cursor)
    throw invalidField('cursor', `cursor is ${shown(cursor)}: it must be the next of an earlier page`)
  return id
}

/**
 * Makes an error that names a parameter or field, with its message as a {@link sentence}. An empty name counts as none.
 */
export function invalidField(param: string, message: string): GatewayError {
  return new GatewayError('invalid_field', sentence(message), { param: param === '' ? undefined : param })
}

/** Ends a message with a full stop, unless it has one or ends with a question mark. */
export function sentence(message: string): string {
  return /[.?]$/.test(message) ? message : `${message}.`
}

/** A value in a message: in quotes, and shortened. */
export function shown(value: string): string {
  return JSON.stringify(shorten(value))
}

function shorten(value: string): string {
  return value.length > 40 ? `${value.slice(0, 39)}…` : value
}
