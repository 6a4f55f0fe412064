// Checks for `verify` that traffic is what the request records add up to, and adds it up anew for a repair.
import { trafficColumns, TrafficTable } from '../../database/traffic-table.ts'
import type { RecordGist } from '../../../requests.ts'
import type { RecordRow } from '../../rows/record-text.ts'
import { trafficKept, trafficSpans } from '../../../traffic.ts'
import type { TrafficSpan } from '../../../traffic.ts'
import type { Head } from '../../database/head.ts'
import { connect, readRows } from '../../files/sqlite.ts'
import type { Database, Row } from '../../files/sqlite.ts'
import type { Report } from './invariants.ts'

const spans = Object.keys(trafficSpans) as TrafficSpan[]
/** What a row is found by, in the order of the tables. */
const place = ['scope', 'time', 'model', 'channel'] as const

/**
 * Checks I20, where the records of a whole minute or hour are there and its sums are kept. `now` is in Unix
 * milliseconds; `each` is called with how many records were read.
 */
export function checkTraffic(
  database: Database,
  { unrecorded }: Pick<Head, 'unrecorded'>,
  now: number,
  report: Report,
  each: (records: number) => void
): void {
  const due = new DueTraffic(database, unrecorded)
  try {
    due.fill(each)
    due.compare(now, report)
  } finally {
    due.close()
  }
}

/**
 * What records add up to, in a database of its own, which SQLite puts into a temporary file when it grows. Of records
 * up to `unrecorded` some may have been deleted: they do not count.
 */
export class DueTraffic {
  readonly #due = connect('')
  readonly #database: Database
  readonly #unrecorded: number
  readonly #table: TrafficTable

  constructor(database: Database, unrecorded: number) {
    this.#database = database
    this.#unrecorded = unrecorded
    for (const { sql } of readRows(
      database,
      "SELECT sql FROM sqlite_master WHERE name IN ('traffic_minute', 'traffic_hour')"
    ))
      this.#due.exec(String(sql))
    this.#due.exec('BEGIN')
    this.#table = new TrafficTable(this.#due)
  }

  /** Adds all records that the database has. */
  fill(each: (records: number) => void): void {
    this.#table.fill(this.#database, this.#unrecorded, each)
  }

  add(row: RecordRow, gist: RecordGist): void {
    if (Number(row.time) > this.#unrecorded) this.#table.count(row, gist, this.#unrecorded)
  }

  /** Compares the traffic of the database with what was added. */
  compare(now: number, report: Report): void {
    this.#table.settle(this.#unrecorded)
    for (const span of spans) {
      const from = Math.floor(Math.max(this.#unrecorded, now - trafficKept[span]) / trafficSpans[span]) + 1
      const select = `SELECT * FROM traffic_${span} WHERE time >= ? ORDER BY ${place.join(', ')}`
      compare(span, readRows(this.#database, select, from), readRows(this.#due, select, from), report)
    }
  }

  close(): void {
    this.#due.close()
  }
}

/**
 * Adds traffic up anew, as far back as there are records. Runs in a transaction of the caller. `each` is called with
 * how many records were read.
 */
export function fillTraffic(
  database: Database,
  { unrecorded }: Pick<Head, 'unrecorded'>,
  each?: (records: number) => void
): void {
  for (const span of spans)
    database.prepare(`DELETE FROM traffic_${span} WHERE time * ? > ?`).run(trafficSpans[span], unrecorded)
  new TrafficTable(database).fill(database, unrecorded, each)
}

/** Compares rows of two tables, both in the order of their places, one by one. */
function compare(span: TrafficSpan, found: Iterator<Row>, due: Iterator<Row>, report: Report): void {
  let [one, other] = [found.next(), due.next()]
  while (!one.done || !other.done) {
    const order = one.done ? 1 : other.done ? -1 : orderOf(one.value, other.value)
    const row = (order > 0 ? other : one).value as Row
    const name = `traffic ${span} ${timeOf(span, row)} ${
      place
        .map((column) => String(row[column]))
        .filter((text, at) => at !== 1 && text !== '')
        .join(' ') || 'all'
    }`
    if (order < 0) report('I20', name, 'has sums where there are no records')
    else if (order > 0) report('I20', name, `is missing; the records make ${textOf(row)}`)
    else if (textOf(one.value as Row) !== textOf(row) || textOf(other.value as Row) !== textOf(one.value as Row))
      report('I20', name, `has ${textOf(one.value as Row)} where the records make ${textOf(other.value as Row)}`)
    if (order <= 0) one = found.next()
    if (order >= 0) other = due.next()
  }
}

/** Which of two rows comes first, as SQLite orders them: texts by their bytes. */
function orderOf(one: Row, other: Row): number {
  for (const column of place) {
    const [left, right] = [one[column]!, other[column]!]
    const order =
      typeof left === 'bigint' && typeof right === 'bigint'
        ? Number(left - right)
        : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)))
    if (order !== 0) return order
  }
  return 0
}

function timeOf(span: TrafficSpan, { time }: Row): string {
  return new Date(Number(time) * trafficSpans[span]).toISOString().slice(0, 16)
}

/** The sums of a row, in which errors come in an order of their own. */
function textOf(row: Row): string {
  return trafficColumns
    .map((name) => {
      const value = String(row[name])
      return `${name} ${name === 'codes' ? sortedCodes(value) : value || 'none'}`
    })
    .join(', ')
}

function sortedCodes(codes: string): string {
  if (codes === '') return 'none'
  try {
    return JSON.stringify(
      Object.fromEntries(Object.entries(JSON.parse(codes) as object).sort(([one], [two]) => (one < two ? -1 : 1)))
    )
  } catch {
    // What was changed by hand may be anything.
    return codes
  }
}
