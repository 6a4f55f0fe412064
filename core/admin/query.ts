// Reads query parameters by name, and shows lists a page at a time.
import { GatewayError } from '../errors.ts'
import { suggestion } from '../options/suggest.ts'
import type { Page } from './contract.ts'

/** The parameters that every list takes. */
export const paging = ['limit', 'cursor'] as const

const mostItems = 1000

/**
 * Reads a query of which all names are known.
 * @throws GatewayError naming a parameter that is unknown, empty or there twice
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

/** How many items are asked for. @throws GatewayError when it is no number from 1 to 1000 */
export function readLimit(query: ReadonlyMap<string, string>, otherwise: number): number {
  const text = query.get('limit')
  if (text === undefined) return otherwise
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > mostItems)
    throw invalidField('limit', `limit is ${shown(text)}: it must be a whole number from 1 to ${mostItems}`)
  return limit
}

/**
 * A page of a list that is all in memory: the items in the order of their ids (by UTF-16 code units), after the cursor.
 * The cursor names the last item shown, so that what comes and goes between two pages moves nothing else over the edge.
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

/** A refusal that names a parameter or field; see {@link sentence}. An empty name is no name. */
export function invalidField(param: string, message: string): GatewayError {
  return new GatewayError('invalid_field', sentence(message), { param: param === '' ? undefined : param })
}

/** Ends a message with its stop, unless it has one or ends by asking `did you mean "x"?`. */
export function sentence(message: string): string {
  return /[.?]$/.test(message) ? message : `${message}.`
}

/** A value for a message: in quotes and cut short. */
export function shown(value: string): string {
  return JSON.stringify(shorten(value))
}

function shorten(value: string): string {
  return value.length > 40 ? `${value.slice(0, 39)}…` : value
}
