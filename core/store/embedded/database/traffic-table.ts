// Writes traffic to the database by minute and by hour, in the transaction in which its records are written, so that
// figures over time read as many rows as they have points, however many requests there were.
import { passedIn } from '../rows/facts.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database, Row, Statement, Value } from '../files/sqlite.ts'
import { Traffic } from '../../traffic.ts'
import type { Passed, StoredTraffic } from '../../traffic.ts'

/** The spans that traffic is summed by, in milliseconds. */
export const trafficSpans = { minute: 60_000, hour: 3_600_000 } as const

/** The name of a span. */
export type TrafficSpan = keyof typeof trafficSpans

/** The columns of the sums, in the order of {@link valuesOf}. */
const sums = ['requests', 'codes', 'input', 'output', 'cost', 'first'] as const

/** The most sums that are kept in memory, because more is likely to be added to them. */
const mostKept = 10_000

/** The sums of one row. */
interface Cell {
  readonly place: readonly Value[]
  readonly traffic: Traffic
  changed: boolean
}

/** The traffic of one database, through one connection. */
export class TrafficTable {
  readonly #spans: readonly Span[]
  /** What was added since the last flush, by where it belongs: most records belong where some before do. */
  readonly #added = new Map<string, { readonly place: Place; readonly traffic: Traffic }>()

  constructor(database: Database) {
    this.#spans = (Object.keys(trafficSpans) as TrafficSpan[]).map((span) => new Span(database, span))
  }

  /** Adds a record that is written. `facts`: as the record has them; null for one of an earlier version. */
  add(tenant: string | null, model: string | null, time: number, facts: string | null, json: string): void {
    const passed = passedIn(facts, json)
    const minute = Math.floor(time / trafficSpans.minute)
    const place = { minute, tenant: tenant ?? '', model: isKnown(passed) ? (model ?? '') : '', channel: passed.channel }
    const name = `${minute}\0${place.tenant}\0${place.model}\0${place.channel}`
    let added = this.#added.get(name)
    if (!added) this.#added.set(name, (added = { place, traffic: new Traffic() }))
    added.traffic.add(passed)
  }

  /** Writes what was added since the last call. */
  flush(): void {
    for (const span of this.#spans) {
      for (const { place, traffic } of this.#added.values()) span.add(place, traffic)
      span.flush()
    }
    this.#added.clear()
  }

  /** Adds all records that the database has. */
  fill(database: Database): void {
    let added = 0
    for (const { tenant, model, time, json } of readRows(database, 'SELECT tenant, model, time, json FROM request')) {
      this.add(tenant as string | null, model as string | null, Number(time), null, json as string)
      if (++added % mostKept === 0) this.flush()
    }
    this.flush()
  }
}

/** Where a record belongs. What there is not is empty. */
interface Place {
  /** Since 1970. */
  readonly minute: number
  readonly tenant: string
  readonly model: string
  readonly channel: string
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
    const columns = [...place, ...sums]
    this.#find = database.prepare(
      `SELECT ${selected} FROM traffic_${span} WHERE ${place.map((name) => `${name} = ?`).join(' AND ')}`
    )
    this.#put = database.prepare(
      `INSERT OR REPLACE INTO traffic_${span} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
    )
  }

  add({ minute, tenant, model, channel }: Place, traffic: Traffic): void {
    const at = Math.floor(minute / this.#minutes)
    this.#cell('', at, '', '').join(traffic)
    if (tenant !== '') this.#cell(`tenant:${tenant}`, at, model, channel).join(traffic)
    if (model !== '') this.#cell(`model:${model}`, at, '', channel).join(traffic)
    if (channel !== '') this.#cell(`channel:${channel}`, at, '', '').join(traffic)
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
export const selected = sums.map((name) => (name === 'cost' ? 'CAST(cost AS TEXT) AS cost' : name)).join(', ')

/**
 * Whether a request got so far that its model is one of the catalogue. Names of others come from clients, who send
 * anything.
 */
function isKnown({ channel, code }: Passed): boolean {
  return channel !== '' || code === 'no_available_channel' || /^(?:quota|rate_limit)_/.test(code)
}

/** What is asked of traffic. Without a tenant it is that of all. */
export interface TrafficQuery {
  readonly tenant?: string | undefined
  readonly model?: string | undefined
  readonly channel?: string | undefined
  readonly span: TrafficSpan
  /** In spans since 1970: the first one, the one after the last, and how many make one point. */
  readonly from: number
  readonly to: number
  readonly every: number
}

/** A point: its number, from 0 on, and its sums. Those without a request are left out. */
export interface TrafficPoint {
  readonly number: number
  readonly sums: StoredTraffic
}

/** Reads the points of a query. */
export function queryTraffic(database: Database, query: TrafficQuery): TrafficPoint[] {
  const { tenant, model, channel, span, from, to, every } = query
  const [scope, inner] =
    tenant !== undefined
      ? [`tenant:${tenant}`, { model, channel }]
      : model !== undefined
        ? [`model:${model}`, { channel }]
        : channel !== undefined
          ? [`channel:${channel}`, {}]
          : ['', {}]
  const named = Object.entries(inner).filter((pair): pair is [string, string] => pair[1] !== undefined)
  const rows = database
    .prepare(
      `SELECT time, ${selected} FROM traffic_${span} WHERE scope = ? AND time >= ? AND time < ?${named.map(([name]) => ` AND ${name} = ?`).join('')} ORDER BY time`
    )
    .iterate(scope, from, to, ...named.map(([, value]) => value)) as Iterable<Row & StoredTraffic>
  const points: { number: number; traffic: Traffic }[] = []
  for (const row of rows) {
    const number = Math.floor((Number(row['time']) - from) / every)
    if (points.at(-1)?.number !== number) points.push({ number, traffic: new Traffic() })
    points.at(-1)!.traffic.join(Traffic.of(row))
  }
  return points.map(({ number, traffic }) => ({ number, sums: traffic.stored }))
}
