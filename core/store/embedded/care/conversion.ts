// Writes the journal in segments of a closed store that has none: what its database has becomes batches.
import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Committer } from '../database/committer.ts'
import { makeReadSide } from '../database/read-side.ts'
import { syncDirectory } from '../files/directory.ts'
import { openDatabase, readRows } from '../files/sqlite.ts'
import type { Database, Row, Value } from '../files/sqlite.ts'
import { readVolume, volumeFolder, volumeOf } from '../journal/volume.ts'
import { historyBytes } from '../log/segment.ts'
import { missingMoves } from '../recovery/recovery.ts'
import {
  answerColumns,
  auditColumns,
  documentColumns,
  emptyBatch,
  entryColumns,
  holdColumns,
  requestColumns,
  routeColumns,
  workColumns
} from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import type { Start } from '../segments/chain.ts'
import { Checkpoints } from '../segments/checkpoint.ts'
import { listNumbered } from '../segments/folder.ts'
import { SegmentWriting } from './segment-writing.ts'
import type { Fields } from './segment-writing.ts'
import type { Reached } from './tell.ts'

/** How many rows a batch has at most. */
const rowsTogether = 1000
/** Kept answers may be long. */
const answersTogether = 50

/** Columns whose numbers are bigints in a batch. */
const money: ReadonlySet<string> = new Set(['amount', 'reserved', 'cost'])

/**
 * Writes the journal of a store beside its database, and has the database go on with that. All of it is on disk when
 * this returns; broken off, the store is of no use. `reached` is told of the entries.
 * @throws Error when the store was made of a book of many nodes, or its entries do not follow each other
 */
export function convert(file: string, reached: Reached): void {
  const folder = volumeFolder(file)
  const database = openDatabase(file, 'power')
  try {
    if (database.prepare('SELECT 1 FROM journal_origin').get())
      throw new Error(
        `${file} was made of a book in PostgreSQL, and keeps where the chains of its gateways ended, which a journal in segments has no room for: let it keep its commit log, with which it goes on as before`
      )
    const committer = new Committer(database)
    const { head } = committer
    committer.add({ ...emptyBatch(head.batch + 1, 0), balanced: true, moves: missingMoves(committer) })
    committer.commit()
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const writing = new SegmentWriting(folder)
    const { fold } = writing
    const histories = historiesOf(database)
    const startOf = (boot: number): Start => {
      const history = histories.get(boot) ?? fresh()
      histories.set(boot, history)
      return { boot, history }
    }
    for (const { boot = head.boot, rows, ...fields } of contentsOf(database, folder, (rows) => reached(rows, head.seq)))
      writing.add(startOf(boot), fields, rows)
    writing.end()
    const { batch, history, seq, hash, audits, auditHash } = fold.place
    if (seq !== head.seq || hash !== head.hash || audits !== head.audits || auditHash !== head.auditHash)
      throw new Error(
        `${file} ends with row ${head.seq} of its journal, and its rows make row ${seq} with another hash`
      )
    committer.alter((next) =>
      Object.assign(next, { history, batch, balancedBatch: batch, balancedSeq: seq, open: false })
    )
    makeReadSide(database)
    const sealed = [...readRows(database, 'SELECT file FROM volume')].map(({ file: name }) =>
      join(folder, String(name))
    )
    // What the journal has now leaves the database.
    database.exec(
      'DROP TRIGGER journal_is_not_cut; DELETE FROM journal; DELETE FROM reservation; DELETE FROM volume; VACUUM'
    )
    for (const path of sealed) rmSync(path)
    database.exec('PRAGMA journal_mode = DELETE')
    new Checkpoints(folder, 'power').write(fold)
  } finally {
    database.close()
  }
  for (const { path } of listNumbered(folder)) {
    const fd = openSync(path, 'r')
    fsyncSync(fd)
    closeSync(fd)
  }
  syncDirectory(folder)
}

function fresh(): string {
  return randomBytes(historyBytes).toString('hex')
}

/** The histories of all starts but the last one, which goes on as another: its log is not part of the journal. */
function historiesOf(database: Database): Map<number, string> {
  const found = [...readRows(database, 'SELECT boot_id, lower(hex(history)) AS history FROM boot ORDER BY boot_id')]
  const histories = new Map(found.map(({ boot_id, history }) => [Number(boot_id), String(history)]))
  const last = Math.max(0, ...histories.keys())
  return histories.set(last, fresh())
}

/** What a batch is to have, how many rows that are, and its start; without one that of the last start. */
interface Contents extends Fields {
  readonly rows: number
  readonly boot?: number
}

/** All that a database has: what is open before the entries, and balances behind them. */
function* contentsOf(database: Database, folder: string, reached: (entries: number) => void): Generator<Contents> {
  const flat = (rows: readonly Row[], columns: readonly string[]): Value[] =>
    rows.flatMap((row) => columns.map((name) => plain(name, row[name]!)))
  const read = (sql: string, together = rowsTogether): Generator<Row[]> => chunks(readRows(database, sql), together)
  // The history of the first start is the identity of the store, also where a database is made of the journal.
  const [first] = readRows(database, 'SELECT boot_id FROM boot ORDER BY boot_id LIMIT 1')
  const boot = first ? { boot: Number(first['boot_id']) } : {}
  yield { ...boot, rows: 0 }
  for (const rows of read('SELECT version, json FROM price'))
    yield { ...boot, rows: rows.length, prices: flat(rows, ['version', 'json']) as string[] }
  for (const rows of read('SELECT * FROM reservation ORDER BY id')) {
    const leased = rows.filter((row) => row['lease_until'] !== null)
    yield {
      ...boot,
      rows: rows.length,
      opened: flat(rows, holdColumns),
      leased: flat(leased, ['lease_until', 'id']) as number[]
    }
  }
  for (const all of read('SELECT * FROM request ORDER BY seq'))
    for (const [written, rows] of Map.groupBy(all, (row) => Number(row['written'])))
      yield { ...boot, rows: rows.length, written, records: flat(rows, requestColumns) }
  for (const rows of runsOf(entriesOf(database, folder))) {
    yield { boot: Number(rows[0]!['boot_id']), rows: rows.length, entries: flat(rows, entryColumns) }
    reached(Number(rows.at(-1)!['seq']))
  }
  for (const rows of read('SELECT * FROM document ORDER BY number'))
    yield { rows: rows.length, documents: flat(rows, documentColumns) }
  for (const rows of read('SELECT * FROM audit ORDER BY seq'))
    yield { rows: rows.length, audit: flat(rows, auditColumns) }
  for (const rows of read('SELECT * FROM answer ORDER BY seq', answersTogether))
    yield { rows: rows.length, answers: flat(rows, answerColumns) }
  for (const rows of read('SELECT * FROM route')) yield { rows: rows.length, routes: flat(rows, routeColumns) }
  for (const rows of read('SELECT * FROM work')) yield { rows: rows.length, works: flat(rows, workColumns) }
  const balances = [...readRows(database, 'SELECT * FROM balance')]
  yield {
    rows: balances.length,
    balanced: true,
    moves: balances.flatMap((row) =>
      ['scope', 'window', 'posted', 'pending'].map((name) => row[name]!)
    ) as Batch['moves'],
    limits: balances
      .filter(({ limit }) => limit !== null)
      .flatMap((row) => ['limit', 'scope', 'window'].map((name) => row[name]!)) as Batch['limits']
  }
}

/** The entries of the journal in order, from its volumes and from the database. */
function* entriesOf(database: Database, folder: string): Generator<Row> {
  let last = 0
  for (const row of readRows(database, 'SELECT * FROM volume ORDER BY first')) {
    const volume = volumeOf(row)
    yield* readVolume(folder, volume)
    last = volume.last
  }
  yield* readRows(database, 'SELECT * FROM journal WHERE seq > ? ORDER BY seq', last)
}

/** Joins rows of one start. */
function* runsOf(rows: Iterable<Row>): Generator<Row[]> {
  let run: Row[] = []
  for (const row of rows) {
    if (run.length > 0 && (run.length === rowsTogether || row['boot_id'] !== run[0]!['boot_id'])) {
      yield run
      run = []
    }
    run.push(row)
  }
  if (run.length > 0) yield run
}

function* chunks(rows: Iterable<Row>, size: number): Generator<Row[]> {
  let chunk: Row[] = []
  for (const row of rows) {
    if (chunk.push(row) < size) continue
    yield chunk
    chunk = []
  }
  if (chunk.length > 0) yield chunk
}

function plain(name: string, value: Value): Value {
  return typeof value === 'bigint' && !money.has(name) ? Number(value) : value
}
