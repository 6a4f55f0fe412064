// Reads balances from the database into memory: at a start, and when the clock or a budget needs older ones.
import type { Database, Row, Value } from '../files/sqlite.ts'
import { day, daysOf, oldestWindow, windowOf } from '../../window.ts'

/**
 * Reads the balances of all windows since a time (Unix milliseconds), and of hours as far back as the rolling budgets
 * of their scopes need them for requests of that time. Integers are bigint.
 */
export function storedBalances(database: Database, since: number): Row[] {
  const rows = all(
    database,
    `SELECT * FROM balance WHERE window >= ? AND length(window) <> ${hourLength} OR window GLOB '*d' ORDER BY scope, window`,
    oldestWindow(since)
  )
  const reach = new Map<string, number>()
  for (const { scope, window } of rows) {
    const days = daysOf(window as string)
    if (days !== undefined) reach.set(scope as string, Math.max(days, reach.get(scope as string) ?? 0))
  }
  return [...rows, ...[...reach].flatMap(([scope, days]) => storedHours(database, scope, since - days * day))]
}

/** Reads the balances of the hours of a scope since a time (Unix milliseconds), with integers as bigint. */
export function storedHours(database: Database, scope: string, since: number): Row[] {
  return all(
    database,
    `SELECT * FROM balance WHERE scope = ? AND window >= ? AND length(window) = ${hourLength}`,
    scope,
    windowOf('hour', since)
  )
}

/** The length of the name of an hour's window. */
const hourLength = 13

function all(database: Database, sql: string, ...values: Value[]): Row[] {
  const statement = database.prepare(sql)
  statement.setReadBigInts(true)
  return statement.all(...values) as Row[]
}
