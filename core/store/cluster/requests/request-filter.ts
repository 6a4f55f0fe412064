// The conditions of a search of the request log, in SQL.
import { GatewayError } from '../../../errors.ts'
import type { Bounds, RequestQuery, RequestTexts } from '../../requests.ts'
import { plain } from '../database/text.ts'

/** Conditions with their values, whose numbers begin at 1. */
export interface Filter {
  readonly where: string
  readonly values: readonly unknown[]
}

/** Where a text of a query is found: a column that is equal to it, but for `channel` and `tag`. */
const columns: Readonly<Record<keyof RequestTexts, string>> = {
  tenant: 'tenant',
  project: 'project',
  member: 'member',
  key: 'key',
  model: 'model',
  endpoint: 'endpoint',
  channel: 'channels',
  code: 'code',
  outcome: 'outcome',
  tag: 'tags'
}

/** The conditions of a query, without its cursor. */
export function filterOf(query: Omit<RequestQuery, 'limit' | 'cursor'>): Filter {
  const values: unknown[] = []
  const value = (one: unknown): string => `$${values.push(one)}`
  const within = (column: string, { from, to }: Bounds<number | string> = {}): string[] => [
    ...(from === undefined ? [] : [`${column} >= ${value(from)}`]),
    ...(to === undefined ? [] : [`${column} <= ${value(to)}`])
  ]
  const texts = (given: RequestTexts): string[] =>
    (Object.keys(columns) as (keyof RequestTexts)[]).flatMap((name) => {
      const text = given[name]
      if (text === undefined) return []
      const wanted = value(plain(text))
      if (name === 'channel') return [`${wanted} = any(channels)`]
      if (name !== 'tag') return [`${columns[name]} = ${wanted}`]
      return [`exists (select from unnest(tags) tag where tag = ${wanted} or starts_with(tag, ${wanted} || '='))`]
    })
  const { request_id: id, not } = query
  const out = not
    ? [...texts(not), ...(not.status ? [`(${within('status', not.status).join(' and ') || 'true'})`] : [])]
    : []
  const conditions = [
    ...(id === undefined ? [] : [`request_id = ${value(plain(id))}`]),
    ...texts(query),
    ...within('time', query.time),
    ...within('status', query.status),
    ...within('cost', query.cost),
    ...within('duration', query.duration),
    ...(out.length > 0 ? [`not (${out.join(' or ')})`] : [])
  ]
  return { where: conditions.join(' and ') || 'true', values }
}

/** Where a page begins: behind the record that arrived at this time and has this id. */
export interface Place {
  readonly time: string
  readonly id: string
}

/**
 * Reads a cursor.
 * @throws GatewayError `invalid_field`
 */
export function readCursor(cursor: string): Place {
  const [, time, id] = /^(\d{1,15})\.(.{1,500})$/s.exec(cursor) ?? []
  if (time === undefined || id === undefined)
    throw new GatewayError('invalid_field', `cursor is ${cursor}: it must be the next of an earlier page.`, {
      param: 'cursor'
    })
  return { time, id: Buffer.from(id, 'base64url').toString() }
}

/** The cursor of the page behind a record. */
export function cursorOf(time: bigint, id: string): string {
  return `${time}.${Buffer.from(id).toString('base64url')}`
}
