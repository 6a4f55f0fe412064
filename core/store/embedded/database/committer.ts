// Applies batches to the database, many of them in one transaction. Runs in the writer thread.
import {
  answerColumns,
  auditColumns,
  documentColumns,
  entryColumns,
  holdColumns,
  recordRow,
  requestColumns,
  routeColumns,
  touchColumns,
  workColumns
} from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { checksum, recordChecksum } from '../files/checksum.ts'
import { headColumns, headValues, readHead } from './head.ts'
import type { Head } from './head.ts'
import { auditHash, entryHash, entryWidth } from '../journal/journal.ts'
import { placedRow, storedValues } from '../rows/record-place.ts'
import type { RecordPlace } from '../rows/record-place.ts'
import { checkedText, gistIn } from '../rows/record-text.ts'
import { isReadSide } from './read-side.ts'
import type { Place } from '../segments/chain.ts'
import { RecordBlocks } from './record-blocks.ts'
import { RowInserter, rowsAtOnce } from './row-inserter.ts'
import { SpendTable } from './spend-table.ts'
import type { Database, Statement, Value } from '../files/sqlite.ts'
import { TrafficTable } from './traffic-table.ts'
import { versionAfter } from '../files/write-ahead.ts'

const bodyColumn = answerColumns.indexOf('body')

/** Where a row of a hold has what changes while it is open; `dispatched` follows from the channel. */
const changing = touchColumns.slice(0, -1).map((name) => holdColumns.indexOf(name as (typeof holdColumns)[number]))
const dispatchedColumn = holdColumns.indexOf('dispatched')

/** Where the frame of a batch is in a journal, and the place behind it, where its rows are hashed already. */
interface FrameOfBatch extends Pick<RecordPlace, 'ordinal' | 'at'> {
  readonly place?: Pick<Place, 'seq' | 'hash'> | undefined
}

/**
 * Applies batches through one connection. After any error the connection must be closed, because the state here may no
 * longer match the database.
 */
export class Committer {
  readonly database: Database
  readonly #sql: ReturnType<typeof prepare>
  readonly #spend: SpendTable
  readonly #traffic: TrafficTable
  readonly #counting: boolean
  /** Whether entries and holds are in a journal in segments, and not here. */
  readonly readSide: boolean
  /** The head as committed, and as it will be after the open transaction. */
  #head: Head
  #next: Head
  /** Whether a transaction is open. */
  #open = false
  /**
   * The rows of holds to write at the commit, by id; undefined deletes the row. Most holds end in the transaction in
   * which they began, and are never written.
   */
  readonly #holds = new Map<number, Value[] | undefined>()
  /** For the holds that were detached: until when they are kept, by id. */
  readonly #leases = new Map<number, number>()
  /** The last row of the table request. */
  #request: number
  readonly #blocks: RecordBlocks
  /** The hashes of the rows that wait to be inserted, and of the row before them. */
  readonly #hashes = Array.from({ length: rowsAtOnce + 1 }, () => Buffer.alloc(32))

  /** `counting`: whether records count in traffic, which they do not where that is written beside them. */
  constructor(database: Database, { counting = true } = {}) {
    this.database = database
    this.#counting = counting
    this.readSide = isReadSide(database)
    this.#sql = prepare(database)
    this.#spend = new SpendTable(database)
    this.#traffic = new TrafficTable(database)
    this.#head = this.#next = readHead(database)
    this.#request = Number(database.prepare('SELECT coalesce(max(seq), 0) AS seq FROM request').get()!['seq'])
    this.#blocks = new RecordBlocks(database, this.#request)
  }

  /** The head as of the last commit. */
  get head(): Readonly<Head> {
    return this.#head
  }

  /** The head as it is after the open transaction. */
  get next(): Readonly<Head> {
    return this.#open ? this.#next : this.#head
  }

  /** The number of the last batch that was added. */
  get last(): number {
    return this.#open ? this.#next.batch : this.#head.batch
  }

  /**
   * Records a new boot with its history. `moves` bring the balances up to date with the journal. From then on the open
   * holds of earlier boots are ended by the recovery. `began` is in Unix milliseconds.
   */
  boot(moves: Batch['moves'], history: string, began: number): void {
    this.#begin()
    this.#balances(moves, [])
    this.turnTo({ boot: this.#next.boot + 1, history }, began)
    this.#next = { ...this.#next, open: true, batch: 0, balancedBatch: 0, balancedSeq: this.#next.seq }
    this.commit()
  }

  /** Has what is added from here on be of another start, which began at that time (Unix milliseconds). */
  turnTo({ boot, history }: Pick<Head, 'boot' | 'history'>, began: number): void {
    this.enter(boot)
    this.#sql.boot.run(boot, Buffer.from(history, 'hex'), began)
    this.#next.history = history
  }

  /** Adds the next batch. It is stored by the next commit. `from`: its frame in a journal, where its records stay. */
  add(batch: Batch, from?: FrameOfBatch): void {
    this.#begin()
    forEach(batch.prices, 2, this.#sql.price)
    this.#balances(batch.moves, batch.limits)
    if (!this.readSide) this.#gather(batch)
    this.#journal(batch.entries, from?.place)
    this.#records(batch, from)
    this.#documents(batch.documents)
    this.#audit(batch.audit)
    this.#answers(batch.answers)
    this.#routes(batch.routes)
    this.#works(batch.works)
    const next = this.#next
    next.batch = batch.number
    if (batch.balanced) [next.balancedBatch, next.balancedSeq] = [batch.number, next.seq]
  }

  /** Notes that requests which arrived up to then, in Unix milliseconds, may have no record in what was added. */
  lacks(unrecorded: number): void {
    this.#next.unrecorded = Math.max(this.#next.unrecorded, unrecorded)
  }

  /** Commits the added batches together. When it throws, they may or may not have been stored. */
  commit(): void {
    if (!this.#open) return
    const { entry, record, open, close, lease, head, commit } = this.#sql
    entry.flush()
    this.#spend.flush()
    const recorded = record.flush()
    this.#next.requests += recorded
    this.#traffic.flush(recorded)
    const { boot } = this.#next
    for (const [id, row] of this.#holds) {
      if (row) open.run(...row, boot)
      else close.run(id)
    }
    for (const [id, until] of this.#leases) lease.run(until, id)
    this.#holds.clear()
    this.#leases.clear()
    this.#next.writes++
    const values = headValues(this.#next)
    head.run(...values, checksum(values))
    this.database.exec(`PRAGMA user_version = ${versionAfter(this.#next.writes)}`)
    commit.run()
    this.#head = this.#next
    this.#open = false
  }

  #begin(): void {
    if (this.#open) return
    this.#sql.begin.run()
    this.#open = true
    this.#next = { ...this.#head }
    this.#hashes[this.#next.seq % this.#hashes.length]!.write(this.#next.hash, 'hex')
  }

  #balances(moves: Batch['moves'], limits: Batch['limits']): void {
    const { move, balance, limit } = this.#sql
    for (let i = 0; i < moves.length; i += 4) {
      const [scope, window, posted, pending] = [moves[i]!, moves[i + 1]!, moves[i + 2]!, moves[i + 3]!]
      if (move.run(posted, pending, scope, window).changes === 0) balance.run(scope, window, posted, pending)
    }
    forEach(limits, 3, limit)
  }

  #gather({ opened, touched, leased, closed }: Batch): void {
    const rows = this.#holds
    const leases = this.#leases
    for (let i = 0; i < touched.length; i += touchColumns.length) {
      const values = touched.slice(i, i + touchColumns.length)
      const row = rows.get(values.at(-1) as number)
      if (row) {
        row[dispatchedColumn] = values[0] === null ? 0 : 1
        // An earlier version wrote no model and no price: those stay.
        changing.forEach((column, at) => (row[column] = at < 2 ? values[at]! : (values[at] ?? row[column]!)))
      } else this.#sql.touch.run(...values)
    }
    for (let i = 0; i < opened.length; i += holdColumns.length) {
      const id = opened[i] as number
      rows.set(id, opened.slice(i, i + holdColumns.length))
      if (leases.size > 0) leases.delete(id)
    }
    for (const id of closed) {
      rows.set(id, undefined)
      leases.delete(id)
    }
    for (let i = 0; i < leased.length; i += 2) leases.set(leased[i + 1]!, leased[i]!)
  }

  /** Adds journal rows, and moves the head to the last of them. */
  #journal(entries: readonly Value[], place: FrameOfBatch['place']): void {
    const { entry } = this.#sql
    const hashes = this.#hashes
    const next = this.#next
    for (let i = 0; i < entries.length; i += entryWidth) {
      this.#spend.add(entries, i)
      if (place) continue
      const previous = hashes[next.seq % hashes.length]!
      next.seq++
      next.hash = entryHash(next.hash, next.seq, next.boot, entries, i)
      if (this.readSide) continue
      const hash = hashes[next.seq % hashes.length]!
      hash.write(next.hash, 'hex')
      entry.add(entries, i, next.seq, next.boot, previous, hash)
    }
    if (place) [next.seq, next.hash] = [place.seq, place.hash]
  }

  /** Has the rows that are added from here on be of another boot: for a store that is made of another one. */
  enter(boot: number): void {
    this.#begin()
    this.#next.boot = boot
  }

  /** Runs a change, and the change of the head that goes with it, in a transaction of its own. */
  alter(change: (head: Head) => void): void {
    this.#begin()
    change(this.#next)
    this.commit()
  }

  #records({ number, records, written }: Batch, from: FrameOfBatch | undefined): void {
    const { record } = this.#sql
    const { length } = requestColumns
    for (let i = 0; i < records.length; i += length) {
      const seq = ++this.#request
      const row = recordRow(records, i)
      const gist = gistIn(row)
      const stored = from ? placedRow(row, from, number, i / length) : row
      this.#blocks.add(seq, written, row, gist, stored.json)
      if (this.#counting) this.#traffic.add(seq, row, gist)
      // A row with a place is compared with the journal, which has checksums of its own.
      const crc = from ? 0 : recordChecksum(seq, written, checkedText(row))
      record.add(from ? storedValues(stored) : records, from ? 0 : i, seq, written, crc)
    }
  }

  #documents(documents: readonly Value[]): void {
    if (documents.length === 0) return
    const { document, deleteDocument, documentCount } = this.#sql
    for (let i = 0; i < documents.length; i += documentColumns.length) {
      const row = documents.slice(i, i + documentColumns.length)
      if (row.at(-1) === null) deleteDocument.run(...row.slice(0, -1))
      else document.run(...row, checksum(row))
    }
    this.#next.documents = Number(documentCount.get()!['count'])
  }

  /** Adds entries of the audit log, and moves the head to the last of them. */
  #audit(audit: readonly Value[]): void {
    const next = this.#next
    for (let i = 0; i < audit.length; i += auditColumns.length) {
      const [time, json] = [audit[i] as number, audit[i + 1] as string]
      next.audits++
      next.auditHash = auditHash(next.auditHash, next.audits, time, json)
      this.#sql.audit.run(next.audits, time, json, Buffer.from(next.auditHash, 'hex'))
    }
  }

  #answers(answers: readonly Value[]): void {
    const { length } = answerColumns
    for (let i = 0; i < answers.length; i += length) {
      const body = answers[i + bodyColumn] as Uint8Array | null
      this.#sql.answer.run(...answers.slice(i, i + length), body?.byteLength ?? 0)
    }
  }

  #routes(routes: readonly Value[]): void {
    const { route, unroute } = this.#sql
    for (let i = 0; i < routes.length; i += routeColumns.length) {
      const row = routes.slice(i, i + routeColumns.length)
      if (row.at(-1) === null) unroute.run(...row.slice(0, 3))
      else route.run(...row)
    }
  }

  #works(works: readonly Value[]): void {
    const { work, forget } = this.#sql
    for (let i = 0; i < works.length; i += workColumns.length) {
      const row = works.slice(i, i + workColumns.length)
      if (row.at(-1) === null) forget.run(...row.slice(0, 3))
      else work.run(...row)
    }
  }
}

/** Runs a statement for each `width` values. */
function forEach(values: readonly Value[], width: number, statement: Statement): void {
  for (let i = 0; i < values.length; i += width) statement.run(...values.slice(i, i + width))
}

function prepare(database: Database) {
  const insert = (table: string, columns: readonly string[], conflict = '', or = ''): Statement =>
    database.prepare(
      `INSERT ${or} INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) ${conflict}`
    )
  return {
    begin: database.prepare('BEGIN IMMEDIATE'),
    commit: database.prepare('COMMIT'),
    price: insert('price', ['version', 'json'], 'ON CONFLICT DO NOTHING'),
    move: database.prepare(
      'UPDATE balance SET posted = posted + ?, pending = pending + ? WHERE scope = ? AND window = ?'
    ),
    balance: insert('balance', ['scope', 'window', 'posted', 'pending']),
    limit: database.prepare('UPDATE balance SET "limit" = ? WHERE scope = ? AND window = ?'),
    open: insert('reservation', [...holdColumns, 'boot_id'], '', 'OR REPLACE'),
    touch: database.prepare(
      'UPDATE reservation SET dispatched = ?1 IS NOT NULL, channel = ?1, cost_price = ?2, delivered_units = ?3, ' +
        'model = coalesce(?4, model), price_version = coalesce(?5, price_version) WHERE id = ?6'
    ),
    close: database.prepare('DELETE FROM reservation WHERE id = ?'),
    lease: database.prepare('UPDATE reservation SET lease_until = ? WHERE id = ?'),
    entry: new RowInserter(database, 'journal', entryColumns, ['seq', 'boot_id', 'prev_hash', 'hash'], ''),
    // A record with the same id stays as it is: a request that was logged twice must not stop the ledger.
    record: new RowInserter(
      database,
      'request',
      requestColumns,
      ['seq', 'written', 'crc'],
      'ON CONFLICT (request_id) DO NOTHING'
    ),
    document: insert(
      'document',
      [...documentColumns, 'crc'],
      'ON CONFLICT (kind, id) DO UPDATE SET json = excluded.json, crc = excluded.crc'
    ),
    deleteDocument: database.prepare('DELETE FROM document WHERE kind = ? AND id = ?'),
    documentCount: database.prepare('SELECT count(*) AS count FROM document'),
    audit: insert('audit', ['seq', ...auditColumns, 'hash']),
    answer: insert('answer', [...answerColumns, 'bytes'], '', 'OR REPLACE'),
    route: insert('route', routeColumns, '', 'OR REPLACE'),
    unroute: database.prepare('DELETE FROM route WHERE tenant = ? AND project = ? AND id = ?'),
    work: insert('work', workColumns, '', 'OR REPLACE'),
    forget: database.prepare('DELETE FROM work WHERE tenant = ? AND project = ? AND id = ?'),
    // A copy goes on in the start of what was copied.
    boot: insert('boot', ['boot_id', 'history', 'began'], 'ON CONFLICT (boot_id) DO NOTHING'),
    head: database.prepare(`UPDATE head SET ${[...headColumns, 'crc'].map((name) => `${name} = ?`).join(', ')}`)
  }
}
