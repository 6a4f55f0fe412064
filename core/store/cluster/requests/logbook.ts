// The request log that all gateways share, and the traffic that its records add up to.
import { GatewayError } from '../../../errors.ts'
import { isRecovered } from '../../embedded/recovery/recovery.ts'
import type { RequestBook, RequestQuery, RequestRecord, RequestTotals, WrittenRecord } from '../../requests.ts'
import { pointsOf, rowsFor, trafficKept, trafficSpans } from '../../traffic.ts'
import type { StoredTraffic, TrafficPoint, TrafficQuery, TrafficSpan } from '../../traffic.ts'
import { day } from '../../window.ts'
import type { Database } from '../database/database.ts'
import { DatabaseFault } from '../database/fault.ts'
import { Group } from '../database/group.ts'
import type { Transaction } from '../database/lane.ts'
import { search } from '../database/search.ts'
import { plain } from '../database/text.ts'
import { unfound } from '../unavailable.ts'
import { cursorOf, filterOf, readCursor } from './request-filter.ts'
import { columnsOf, lineColumns, lineRows } from './line.ts'
import type { Line } from './line.ts'
import { correctEnded, correctRecords, inTurn, mayBeWrong, placeOf, replaceStandIns } from './stand-ins.ts'
import type { Replaced } from './stand-ins.ts'
import { Uncharged } from './uncharged.ts'
import type { Charge } from './uncharged.ts'
import { TrafficSums } from './traffic-sums.ts'

/** The most records that wait while the database is away. */
const mostWaiting = 50_000
/**
 * How long records are gathered that nobody asks for, in milliseconds. Each writing is a statement, and a row of sums
 * for each scope and span.
 */
const gathers = 200
/** How many requests are remembered that others have ended. */
const mostEnded = 10_000
/** How long records wait for the holds of their requests before their writing counts as failed, in milliseconds. */
const waitsForHolds = 2000
/** The database says so where a record is there already. */
const knownCode = 'SL004'
/** How long a search may take, in milliseconds. */
const searchWithin = { deadline: 30_000 }

/** How much of the log is kept. Days are dropped as a whole. */
export interface LogBounds {
  /** Milliseconds since a request arrived. */
  readonly age: number
  /** Bytes of all. The present day stays. */
  readonly size: number
}

/** The request log as one gateway has it. */
export class Logbook implements RequestBook {
  readonly #database: Database
  readonly #bounds: LogBounds
  readonly #now: () => number
  readonly #group: Group<Line>
  /** By the ids of requests. */
  readonly #corrections: Group<string>
  readonly #sums = new TrafficSums()
  readonly #uncharged = new Uncharged()
  /** Requests that others have ended, or of which something was corrected: their records may come later. */
  readonly #ended = new Set<string>()
  /** Done when the latest write is. */
  #counting: Promise<void> = Promise.resolve()
  /**
   * Resolves when all holds that were made before are in the database, or never will be. Records wait for it: of a
   * request whose hold is lost with its gateway nobody else could say that it was not charged.
   */
  follows: () => Promise<void> = () => Promise.resolve()
  /** How many records were dropped, because the database was away for too long, or they were too old. */
  dropped = 0

  constructor(database: Database, bounds: LogBounds, now: () => number) {
    this.#database = database
    this.#bounds = bounds
    this.#now = now
    this.#group = new Group({
      most: 500,
      bytesOf: ({ json }) => json.length,
      lasting: true,
      gathers,
      room: mostWaiting,
      write: (lines) => this.#write(lines)
    })
    this.#corrections = new Group({
      most: 500,
      lasting: true,
      write: (ids) =>
        this.#counted(() =>
          database.changes.transaction((transaction) => correctEnded(transaction, ids, this.#sums, this.#now()))
        )
    })
  }

  append(record: RequestRecord, json = JSON.stringify(record), time = Date.parse(record.time)): void {
    this.#group.add({ record, json, time: Number.isNaN(time) ? 0 : time }).catch(() => void this.dropped++)
  }

  /**
   * A request, or a part of one, was ended for a gateway that was gone, or that charge was corrected: its record, if it
   * has one, says what the journal says.
   */
  corrected(requestId: string): void {
    if (this.#ended.size >= mostEnded) this.#ended.delete(this.#ended.keys().next().value!)
    this.#ended.add(requestId)
    this.#corrections.add(requestId).catch(() => {})
  }

  /** Of what a request was charged by its record, this was not charged. To be called before its hold is decided. */
  uncharged(requestId: string, charge: Charge): void {
    this.#uncharged.add(requestId, charge)
  }

  /** The last to arrive is first. Includes what was appended before the call, unless the database is away. */
  async list(
    { limit, cursor, ...query }: RequestQuery,
    left?: AbortSignal
  ): Promise<{ data: RequestRecord[]; next: string | null }> {
    if (!Number.isInteger(limit) || limit < 1 || limit > 1000)
      throw new GatewayError('invalid_field', `limit is ${limit}: it must be a whole number from 1 to 1000.`, {
        param: 'limit'
      })
    const { where, values } = filterOf(query)
    const place = cursor === undefined ? undefined : readCursor(cursor)
    const count = values.length
    const rows = await this.#read<{ time: bigint; request_id: string; json: string }>(
      `select time, request_id, json from sluice.request where ${where}
       ${place ? `and (time, request_id) < ($${count + 2}, $${count + 3})` : ''}
       order by time desc, request_id desc limit $${count + 1}`,
      [...values, limit + 1, ...(place ? [place.time, plain(place.id)] : [])],
      left
    )
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      data: page.map(({ json }) => JSON.parse(json) as RequestRecord),
      next: rows.length > limit && last ? cursorOf(last.time, last.request_id) : null
    }
  }

  async find(id: string, tenant?: string): Promise<WrittenRecord | undefined> {
    const [row] = await this.#read<{ json: string; written: bigint }>(
      'select json, written from sluice.request where request_id = $1 and ($2::text is null or tenant = $2) limit 1',
      [plain(id), tenant ?? null]
    )
    return row && { record: JSON.parse(row.json) as RequestRecord, written: Number(row.written) }
  }

  async totals(
    { limit: _limit, cursor: _cursor, ...query }: RequestQuery,
    parts: number,
    left?: AbortSignal
  ): Promise<RequestTotals> {
    const now = this.#now()
    const to = Math.min(query.time?.to ?? now, now)
    const [edge] =
      query.time?.from === undefined
        ? await this.#read<{ time: bigint | null }>('select min(time) as time from sluice.request', [], left)
        : []
    const from = Math.min(query.time?.from ?? Number(edge?.time ?? to), to)
    const width = Math.max(1, Math.ceil((to - from + 1) / parts))
    const { where, values } = filterOf({ ...query, time: { from, to } })
    const [at, wide] = [`$${values.length + 1}::bigint`, `$${values.length + 2}::bigint`]
    const rows = await this.#read<Record<'part' | 'requests' | 'refused' | 'failed', bigint>>(
      `select (time - ${at}) / ${wide} as part, count(*) as requests,
         count(*) filter (where status between 400 and 499) as refused, count(*) filter (where status >= 500) as failed
       from sluice.request where ${where} group by part`,
      [...values, from, width],
      left
    )
    const counts = Array.from({ length: parts }, (_, part) => ({
      at: from + part * width,
      requests: 0,
      refused: 0,
      failed: 0
    }))
    for (const { part, requests, refused, failed } of rows)
      Object.assign(counts[Number(part)] ?? {}, {
        requests: Number(requests),
        refused: Number(refused),
        failed: Number(failed)
      })
    return { from, to, width, counted: from, parts: counts.filter((part) => part.at <= to) }
  }

  /** Adds up the requests that ended until now, unless the database is away. */
  async traffic(query: TrafficQuery): Promise<TrafficPoint[]> {
    const { scope, named } = rowsFor(query)
    const conditions = named.map(([name], i) => `and ${name} = $${i + 5}`).join(' ')
    const rows = await this.#read<
      Omit<StoredTraffic, 'requests' | 'input' | 'output'> & Record<'time' | 'requests' | 'input' | 'output', bigint>
    >(
      `select time, requests, codes, input, output, cost, first from sluice.traffic
       where span = $1 and scope = $2 and time >= $3 and time < $4 ${conditions} order by time`,
      [query.span, plain(scope), query.from, query.to, ...named.map(([, value]) => plain(value))]
    )
    const read = rows.map(({ time, requests, input, output, ...rest }) => ({
      ...rest,
      time: Number(time),
      requests: Number(requests),
      input: Number(input),
      output: Number(output)
    }))
    return pointsOf(read, query)
  }

  /** Makes the days to come, and drops what is too old or too much. Returns whether there may be more. */
  async sweep(): Promise<boolean> {
    const today = Math.floor(this.#now() / day)
    const { changes } = this.#database
    for (const ahead of [0, 1, 2]) await changes.query('select sluice.make_request_day($1)', [today + ahead])
    for (const span of Object.keys(trafficSpans) as TrafficSpan[])
      await changes.query('delete from sluice.traffic where span = $1 and time < $2', [
        span,
        Math.floor((this.#now() - trafficKept[span]) / trafficSpans[span])
      ])
    const { rows } = await changes.query<{ day: number; bytes: bigint }>('select day, bytes from sluice.request_days()')
    const bytes = rows.reduce((sum, row) => sum + Number(row.bytes), 0)
    const [oldest] = rows
    if (!oldest || oldest.day >= today || (oldest.day >= this.#oldestDay && bytes <= this.#bounds.size)) return false
    // Whoever waits for the lock stops all who come after: it is given up soon, and tried again at the next look.
    await changes.transaction(async (transaction) => {
      await transaction.query(`set local lock_timeout = '500ms'`)
      await transaction.query(`drop table if exists sluice.request_${oldest.day}`)
    })
    return true
  }

  /** Resolves when nothing waits to be written. */
  async idle(): Promise<void> {
    await Promise.all([this.#group.idle(), this.#corrections.idle()])
  }

  /** Writes what waits, if the database is there. */
  async close(): Promise<void> {
    await Promise.all([this.#group.close(), this.#corrections.close()])
  }

  /** The oldest day that is kept. */
  get #oldestDay(): number {
    return Math.floor((this.#now() - this.#bounds.age) / day)
  }

  async #read<Row>(text: string, values: readonly unknown[], left?: AbortSignal): Promise<Row[]> {
    if (!this.#group.failing) await this.#group.idle()
    return search<Row>(this.#database.searches, text, values, { ...searchWithin, left }).catch(unfound)
  }

  async #write(lines: readonly Line[]): Promise<void> {
    const found = lines.filter(({ time }) => Math.floor(time / day) >= this.#oldestDay)
    this.dropped += lines.length - found.length
    if (found.length === 0) return
    await this.#afterHolds()
    const kept = found.map((line) => this.#uncharged.takenFrom(line))
    try {
      await this.#add(kept)
    } catch (error) {
      // No partition for the row: the day has no table yet.
      if (!(error instanceof DatabaseFault) || error.code !== '23514') throw error
      for (const one of new Set(kept.map(({ time }) => Math.floor(time / day))))
        await this.#database.changes.query('select sluice.make_request_day($1)', [one])
      await this.#add(kept)
    }
  }

  /** @throws DatabaseFault when the database does not take the holds */
  async #afterHolds(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<true>()
    const timer = setTimeout(resolve, waitsForHolds, true).unref()
    const missing = await Promise.race([this.follows(), late]).finally(() => clearTimeout(timer))
    if (missing)
      throw new DatabaseFault('deadline', 'the holds of requests are not written, which their records follow')
  }

  /** Nearly always all are new and right, which is one call; else the others are looked at in a transaction. */
  async #add(lines: readonly Line[]): Promise<void> {
    const { changes } = this.#database
    if (!lines.some((line) => this.#isDoubtful(line)))
      try {
        return await this.#counted(() =>
          changes.query('select sluice.log_requests_1($1, $2)', [
            JSON.stringify(lines.map(columnsOf)),
            JSON.stringify(this.#sums.add(lines, []))
          ])
        )
      } catch (error) {
        if (!(error instanceof DatabaseFault) || error.code !== knownCode) throw error
      }
    await this.#counted(() => changes.transaction((transaction) => this.#insert(transaction, lines)))
  }

  /**
   * Writes records or corrections with their sums, one after the other: a write has whole sums, and not what is added
   * to them. Where it fails, whether the sums were written or not, what is written next belongs to other rows.
   */
  async #counted(write: () => Promise<unknown>): Promise<void> {
    const before = this.#counting
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#counting = promise
    await before
    try {
      await write()
    } catch (error) {
      this.#sums.begin()
      throw error
    } finally {
      resolve()
    }
  }

  /**
   * Writes records with the sums of those that were not there: one that is logged twice counts once. An exchange's own
   * record replaces one that was written in its place.
   */
  async #insert(transaction: Transaction, lines: readonly Line[]): Promise<void> {
    if (lines.some(({ record }) => isRecovered(record) || this.#isOfOthers(record))) await inTurn(transaction, 'writes')
    const names = Object.keys(lineColumns).join(', ')
    const { rows } = await transaction.query<{ request_id: string }>(
      `insert into sluice.request (time, request_id, written, ${names})
       select time, request_id, floor(extract(epoch from clock_timestamp()) * 1000), ${names} from ${lineRows}
       on conflict do nothing returning request_id`,
      [JSON.stringify(lines.map(columnsOf))]
    )
    const added = new Set(rows.map(({ request_id: id }) => id))
    // Of two in one batch, one.
    const [fresh, known] = [[] as Line[], [] as Line[]]
    for (const line of lines) (added.delete(plain(line.record.request_id)) ? fresh : known).push(line)
    await this.#count(transaction, fresh, await replaceStandIns(transaction, known))
    const doubtful = lines.filter((line) => this.#isDoubtful(line)).map(placeOf)
    await correctRecords(transaction, doubtful, this.#sums, this.#now())
  }

  /** Of what this gateway was not charged for, others may have ended the hold: it cannot tell. */
  #isDoubtful({ record }: Line): boolean {
    return mayBeWrong(record) || this.#isOfOthers(record)
  }

  #isOfOthers({ request_id: id }: RequestRecord): boolean {
    return this.#uncharged.has(id) || this.#ended.has(id)
  }

  /** Writes the sums that change with new records, and with those that were replaced. */
  #count(transaction: Transaction, fresh: readonly Line[], replaced: readonly Replaced[]): Promise<void> {
    const gone = replaced.map(({ before }) => before)
    return this.#sums.write(transaction, [...fresh, ...replaced.map(({ after }) => after)], gone)
  }
}
