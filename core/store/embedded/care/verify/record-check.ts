// Checks for `verify` that the request records of a journal say what it charges, and that the database has them.
import { readRows } from '../../files/sqlite.ts'
import type { Database, Row, Statement } from '../../files/sqlite.ts'
import type { RecordGist } from '../../../requests.ts'
import type { Head } from '../../database/head.ts'
import { isPlace, withId } from '../../rows/record-place.ts'
import type { RecordPlace } from '../../rows/record-place.ts'
import { gistIn } from '../../rows/record-text.ts'
import type { RecordRow } from '../../rows/record-text.ts'
import { idForms } from '../../rows/uuid.ts'
import type { Report } from './invariants.ts'
import { isAsWritten } from './soundness.ts'
import { DueTraffic } from './traffic-check.ts'

/** The columns of a record that are compared. */
const compared = ['tenant', 'key', 'model', 'time', 'json'] as const
/** How many records of requests that cost nothing are remembered, as their end may come behind them. */
const freeKept = 4096
/** How many ends are remembered whose record may be gone: it comes soon behind them where it is not. */
const oldKept = 65_536

/** An end without a record. */
interface Unrecorded {
  readonly entry: number
  total: bigint
}

/** Takes the entries and records of a journal, in order. */
export class RecordCheck {
  readonly #head: Head
  readonly #report: Report
  /** The rows of the database, in the order in which they were written, and the next one. */
  readonly #rows: Iterator<Row>
  #row: (Row & RecordRow) | undefined
  readonly #find: Statement
  /** Whether a record was found in the database: only older ones may have been deleted. */
  #begun = false
  /** The earliest time of a record in the database; undefined when it has none. */
  readonly #oldest: number | undefined
  /** What was charged for parts of requests that have not ended. */
  readonly #parts = new Map<string, bigint>()
  readonly #ended = new Map<string, Unrecorded>()
  /** What was charged for requests that ended without a record, and may have none any more. */
  readonly #old = new Map<string, bigint>()
  /** What records say whose end is not there: something, or nothing. */
  readonly #charged = new Map<string, string>()
  readonly #free = new Set<string>()
  /** What records say that is not what was charged, unless ends of parts follow. */
  readonly #differing = new Map<string, { readonly said: string; total: bigint }>()
  readonly #traffic: DueTraffic

  constructor(database: Database, head: Head, report: Report) {
    this.#head = head
    this.#report = report
    this.#rows = readRows(database, 'SELECT * FROM request ORDER BY seq')
    this.#find = database.prepare('SELECT seq FROM request WHERE request_id IN (?, ?)')
    this.#oldest =
      (database.prepare('SELECT min(time) AS time FROM request').get()!['time'] as number | null) ?? undefined
    this.#traffic = new DueTraffic(database, head.unrecorded)
    this.#next()
  }

  /** Adds the terminal entry of a request, or of a part of one, which arrived at `time`. */
  end(entry: number, id: string, part: string, amount: bigint, time: number): void {
    if (part !== '') return this.#endPart(id, amount)
    const total = (this.#parts.get(id) ?? 0n) + amount
    this.#parts.delete(id)
    const said = this.#charged.get(id) ?? (this.#free.has(id) ? '0' : undefined)
    if (said !== undefined) {
      this.#charged.delete(id)
      this.#free.delete(id)
      this.#compare(id, said, total)
      // As far back as there are records.
    } else if (this.#oldest !== undefined && time >= this.#oldest && time > this.#head.unrecorded)
      this.#ended.set(id, { entry, total })
    else remember(this.#old, id, total)
  }

  /**
   * Adds a record, which is at `place`. `written`: when, in Unix milliseconds, where the database is to have it unless
   * it was deleted for its age.
   */
  record(row: RecordRow, place: RecordPlace, written: number | undefined): void {
    const { request_id: id } = row
    const gist = gistIn(row)
    const { cost_nano: said } = gist
    if (typeof said !== 'string') this.#report('I11', `request ${id}`, 'has money that is no decimal string')
    if (written !== undefined) this.#match(row, place, written, gist)
    const total = this.#ended.get(id)?.total ?? this.#old.get(id)
    if (total !== undefined) {
      this.#ended.delete(id)
      this.#old.delete(id)
      this.#compare(id, said, total)
    } else if (said !== '0') this.#charged.set(id, said)
    else {
      this.#free.add(id)
      if (this.#free.size > freeKept) for (const first of this.#free) return void this.#free.delete(first)
    }
  }

  /** Reports what is left, and compares traffic (I20). `now` is in Unix milliseconds. */
  finish(now: number, report: Report): void {
    for (const [id, { entry }] of this.#ended) report('I8', `journal ${entry}`, `${id} has no request record`)
    for (const [id, said] of this.#charged) report('I8', `request ${id}`, `says ${said} where the journal has nothing`)
    for (const [id, { said, total }] of this.#differing)
      if (said !== String(total)) report('I8', `request ${id}`, `says ${said} where the journal says ${total}`)
    for (const [id, total] of this.#parts)
      if (this.#find.get(...idForms(id))) report('I8', `request ${id}`, `lacks ${total}, which parts of it cost`)
    for (; this.#row; this.#next()) strange(this.#row, report)
    this.#traffic.compare(now, report)
  }

  close(): void {
    this.#traffic.close()
  }

  #compare(id: string, said: string, total: bigint): void {
    if (said !== String(total)) this.#differing.set(id, { said, total })
  }

  /** A part may end behind the request that it is of, and behind the record of that. */
  #endPart(id: string, amount: bigint): void {
    const ended = this.#differing.get(id) ?? this.#ended.get(id)
    const old = this.#old.get(id)
    if (ended) ended.total += amount
    else if (old !== undefined) this.#old.set(id, old + amount)
    else this.#parts.set(id, (this.#parts.get(id) ?? 0n) + amount)
  }

  /** Compares a record with the next row of the database. One that was logged twice is there once. */
  #match(row: RecordRow, place: RecordPlace, written: number, gist: RecordGist): void {
    const { request_id: id } = row
    if (this.#row?.request_id !== id) {
      if (!this.#begun && Number(row.time) <= this.#head.unrecorded) return
      const found = this.#find.get(...idForms(id))?.['seq'] as number | undefined
      if (found === undefined) return this.#report('I16', `request ${id}`, 'is missing in the database')
      if (!this.#row || found < Number(this.#row['seq'])) return
      for (; this.#row && Number(this.#row['seq']) < found; this.#next()) strange(this.#row, this.#report)
    }
    this.#begun = true
    const stored = this.#row!
    this.#traffic.add(row, gist)
    if (!isAt(stored, row, place, written) && !(isSame(stored, row) && isAsWritten(stored)))
      this.#report('I16', `request ${id}`, 'is not what the journal has')
    this.#next()
  }

  #next(): void {
    const { done, value } = this.#rows.next()
    this.#row = done ? undefined : withId(value)
  }
}

/** Reports a row of the database that no record belongs to. */
function strange({ request_id: id }: RecordRow, report: Report): void {
  report('I16', `request ${id}`, 'is not in the journal')
}

/** Remembers the newest ends. */
function remember(ends: Map<string, bigint>, id: string, total: bigint): void {
  ends.set(id, total)
  if (ends.size > oldKept) for (const first of ends.keys()) return void ends.delete(first)
}

/** Whether a row of the database says where a record is, and nothing else than it should. */
function isAt(stored: Row & RecordRow, record: RecordRow, place: RecordPlace, written: number): boolean {
  const { json, time, tenant, key, model } = stored
  return (
    isPlace(json, place) &&
    Number(time) === Number(record.time) &&
    Number(stored['written']) === written &&
    [tenant, key, model].every((value) => value === null)
  )
}

/** Whether a row of the database has a record itself, as in a store that was taken over. */
function isSame(stored: RecordRow, record: RecordRow): boolean {
  return compared.every((name) => String(stored[name]) === String(record[name]))
}
