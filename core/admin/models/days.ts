// Whole days in UTC, by which spend is added up: those that a route about models looks at.
import { invalidField, readTime } from '../api/query.ts'
import type { Call } from '../api/contract.ts'

const day = 86_400_000
/** How many days are looked at where a request does not say, today included. */
const usual = 7

/** The days since 1970 that are looked at; `until` is not included. Default: the last seven, with today. */
export type Days = readonly [since: number, until: number]

/**
 * Makes days of two times in Unix milliseconds.
 * @throws GatewayError when one is no whole day, or they are in the wrong order
 */
export function daysOf(since: number | undefined, until: number | undefined, now = Date.now()): Days {
  const tomorrow = Math.floor(now / day) + 1
  const last = wholeDay('until', until) ?? tomorrow
  const first = wholeDay('since', since) ?? last - usual
  if (first >= last) throw invalidField('since', 'since must be before until, which is not included')
  return [first, last]
}

/** Reads the days that a query asks for. */
export function readDays(query: Call['query']): Days {
  return daysOf(readTime(query, 'since'), readTime(query, 'until'))
}

/** A day as it is written: `2026-11-21`. */
export function showDay(number: number): string {
  return new Date(number * day).toISOString().slice(0, 10)
}

function wholeDay(name: string, time: number | undefined): number | undefined {
  if (time === undefined) return undefined
  if (time % day === 0) return time / day
  throw invalidField(name, `${name} must be a day in UTC like 2026-11-21, by which spend is added up`)
}
