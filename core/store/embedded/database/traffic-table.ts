// Writes traffic to the database by minute and by hour, in the transaction in which its records are written, so that
// figures over time read as many rows as they have points, however many requests there were.
import { gistIn } from '../rows/record-text.ts'
import type { RecordRow } from '../rows/record-text.ts'
import type { RecordGist } from '../../requests.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import type { RecordReader } from '../segments/record-reader.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database, Statement, Value } from '../files/sqlite.ts'
import { cellsOf, passedOf, placeOf, pointsOf, rowsFor, Traffic, trafficSpans } from '../../traffic.ts'
import type { Passed, StoredTraffic, TrafficPlace, TrafficPoint, TrafficQuery, TrafficSpan } from '../../traffic.ts'

/** The columns of the sums. */
export const trafficColumns = ['requests', 'codes', 'input', 'output', 'cost', 'first'] as const

/** The most sums that are kept in memory, because more is likely to be added to them. */
const mostKept = 10_000

/** The sums of one row. */
interface Cell {
  readonly place: readonly Value[]
  readonly traffic: Traffic
  changed: boolean
}

/** A record whose row waits to be inserted. */
interface Waiting {
  readonly seq: number
  readonly tenant: string | null
  readonly model: string | null
  readonly time: number
  readonly passed: Passed
}

/** The traffic of one database, through one connection. */
export class TrafficTable {
  readonly #spans: readonly Span[]
  /** The records that were added since the last flush. */
  #waiting: Waiting[] = []
  /** Their sums, by where they belong: most records belong where some before do. */
  readonly #added = new Map<string, Added>()
  /** The one of the last record of each tenant. */
  readonly #last = new Map<string, Added>()
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
    this.#spans = (Object.keys(trafficSpans) as TrafficSpan[]).map((span) => new Span(database, span))
  }

  /** Adds a record that is to be written as this row. */
  add(seq: number, { tenant, model, time }: RecordRow, gist: RecordGist): void {
    this.#waiting.push({ seq, tenant, model, time: Number(time), passed: passedOf(gist) })
  }

  /** Writes what was added since the last call. `inserted`: how many of these records became rows. */
  flush(inserted: number): void {
    const waiting = this.#waiting
    this.#waiting = []
    // A record that was logged twice became one row, and counts once.
    const find = inserted === waiting.length ? undefined : this.#database.prepare('SELECT 1 FROM request WHERE seq = ?')
    for (const record of waiting) if (!find || find.get(record.seq)) this.#sum(record)
    this.#write()
  }

  /**
   * Adds a record that is written already to the minutes and hours that begin after `after`, in Unix milliseconds. It
   * is gathered with others until {@link TrafficTable.settle}.
   */
  count({ tenant, model, time }: RecordRow, gist: RecordGist, after: number): void {
    this.#sum({ tenant, model, time: Number(time), passed: passedOf(gist) })
    if (this.#added.size > mostKept) this.#write(after)
  }

  /** Writes what was counted. */
  settle(after: number): void {
    this.#write(after)
  }

  /**
   * Adds all records that a database has to the minutes and hours that begin after `after`, in Unix
   * milliseconds. `each` is called with how many were read.
   */
  fill(database: Database, after = -1, each?: (records: number) => void): void {
    let added = 0
    const rows = readRows(
      database,
      'SELECT request_id, tenant, key, model, time, json FROM request WHERE time > ?',
      after
    ) as Iterable<unknown> as Iterable<RecordRow>
    const records = recordsBeside(database)
    for (const row of rows) {
      const counted = readable(row, records)
      if (counted) this.#sum(counted)
      if (++added % mostKept === 0) {
        this.#write(after)
        each?.(added)
      }
    }
    this.#write(after)
    each?.(added)
  }

  #sum({ tenant, model, time, passed }: Omit<Waiting, 'seq'>): void {
    const minute = Math.floor(time / trafficSpans.minute)
    const place = placeOf(tenant, model, passed)
    let added = this.#last.get(place.tenant)
    if (!added || !isAt(added.place, minute, place))
      this.#last.set(place.tenant, (added = this.#addedTo({ minute, ...place })))
    added.traffic.add(passed)
  }

  #addedTo(place: Place): Added {
    const name = `${place.minute}\0${place.tenant}\0${place.model}\0${place.channel}`
    let added = this.#added.get(name)
    if (!added) this.#added.set(name, (added = { place, traffic: new Traffic() }))
    return added
  }

  #write(after = -1): void {
    for (const span of this.#spans) {
      for (const { place, traffic } of this.#added.values()) span.add(place, traffic, after)
      span.flush()
    }
    this.#added.clear()
    this.#last.clear()
  }
}

/** Where a record belongs. */
interface Place extends TrafficPlace {
  /** Since 1970. */
  readonly minute: number
}

function isAt(place: Place, minute: number, { model, channel }: TrafficPlace): boolean {
  return place.minute === minute && place.model === model && place.channel === channel
}

/** The sums of what belongs to one place. */
interface Added {
  readonly place: Place
  readonly traffic: Traffic
}

/** One of the two tables. */
class Span {
  readonly #minutes: number
  /** The rows that were changed lately, by where they stand: most are changed again. */
  readonly #cells = new Map<string, Cell>()
  #changed: Cell[] = []
  readonly #find: Statement
  readonly #put: Statement

  constructor(database: Database, span: TrafficSpan) {
    this.#minutes = trafficSpans[span] / trafficSpans.minute
    const place = ['scope', 'time', 'model', 'channel']
    const columns = [...place, ...trafficColumns]
    this.#find = database.prepare(
      `SELECT ${selected} FROM traffic_${span} WHERE ${place.map((name) => `${name} = ?`).join(' AND ')}`
    )
    this.#put = database.prepare(
      `INSERT OR REPLACE INTO traffic_${span} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
    )
  }

  add({ minute, ...place }: Place, traffic: Traffic, after: number): void {
    const at = Math.floor(minute / this.#minutes)
    if (at * this.#minutes * trafficSpans.minute <= after) return
    for (const [scope, model, channel] of cellsOf(place)) this.#cell(scope, at, model, channel).join(traffic)
  }

  flush(): void {
    for (const cell of this.#changed) {
      const { requests, codes, input, output, cost, first } = cell.traffic.stored
      this.#put.run(...cell.place, requests, codes, input, output, BigInt(cost), first)
      cell.changed = false
    }
    this.#changed = []
    if (this.#cells.size > mostKept) this.#cells.clear()
  }

  #cell(scope: string, at: number, model: string, channel: string): Traffic {
    const name = `${scope}\0${at}\0${model}\0${channel}`
    let cell = this.#cells.get(name)
    if (!cell) {
      const place = [scope, at, model, channel]
      const row = this.#find.get(...place) as StoredTraffic | undefined
      this.#cells.set(name, (cell = { place, traffic: row ? Traffic.of(row) : new Traffic(), changed: false }))
    }
    if (!cell.changed) this.#changed.push(cell)
    cell.changed = true
    return cell.traffic
  }
}

/** The sums as {@link StoredTraffic} has them: a number does not hold all costs. */
export const selected = trafficColumns.map((name) => (name === 'cost' ? 'CAST(cost AS TEXT) AS cost' : name)).join(', ')

/** What a row adds; undefined when it was changed by hand and has no record, which `verify` names (I16). */
function readable(row: RecordRow, records: RecordReader): Omit<Waiting, 'seq'> | undefined {
  try {
    const { json, tenant, model, time } = records.read(row)
    return { tenant, model, time: Number(time), passed: passedOf(gistIn({ json })) }
  } catch {
    return undefined
  }
}

/** Reads the points of a query. */
export function queryTraffic(database: Database, query: TrafficQuery): TrafficPoint[] {
  const { span, from, to } = query
  const { scope, named } = rowsFor(query)
  const rows = database
    .prepare(
      `SELECT time, ${selected} FROM traffic_${span} WHERE scope = ? AND time >= ? AND time < ?${named.map(([name]) => ` AND ${name} = ?`).join('')} ORDER BY time`
    )
    .iterate(scope, from, to, ...named.map(([, value]) => value)) as Iterable<unknown> as Iterable<
    StoredTraffic & { time: number }
  >
  return pointsOf(rows, query)
}
