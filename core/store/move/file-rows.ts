// Writes the rows of a book into a store of one machine, part by part, in the transaction of their batch.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { nameOf } from '../embedded/book/open-work.ts'
import type { Committer } from '../embedded/database/committer.ts'
import { resultFile, resultsFolder } from '../embedded/files/results.ts'
import type { Row, Value } from '../embedded/files/sqlite.ts'
import {
  answerColumns,
  emptyBatch,
  entryColumns,
  holdColumns,
  recordValues,
  routeColumns,
  workColumns
} from '../embedded/rows/batch.ts'
import type { Batch } from '../embedded/rows/batch.ts'
import type { RequestRecord } from '../requests.ts'
import { pieceBytes } from './parts.ts'
import type { Part } from './parts.ts'

/** What rows are written with. */
export interface FileRows {
  /** In a transaction, which the caller commits. */
  readonly committer: Committer
  /** The database. */
  readonly file: string
  /** Of which boot the rows from the chains of nodes are; null before the first of them. */
  boot: number | null
  /** How many rows of the part were written before. */
  readonly before: number
}

/** Writes some rows of each part. They are not there yet. */
export const writers: Readonly<Record<Part, (rows: readonly Row[], to: FileRows) => void>> = {
  price: (rows, to) =>
    add(to, (batch) => {
      for (const { version, json } of rows) batch.prices.push(version as string, json as string)
    }),

  balance: (rows, to) =>
    add(to, (batch) => {
      for (const { scope, window, limit, posted, pending } of rows as unknown as readonly BalanceRow[]) {
        batch.moves.push(scope, window, posted, pending)
        if (limit !== null) batch.limits.push(limit, scope, window)
      }
    }),

  /**
   * Those of a store that was moved into the book go on as they were. All others get a place in the chain of this one,
   * and the end of the chain that they were in is kept.
   */
  journal(rows, to) {
    const { committer } = to
    const put = committer.database.prepare(
      `INSERT INTO journal_origin (first, last, node, epoch, hash) VALUES (?1, ?2, ?3, ?4, unhex(?5))
       ON CONFLICT (node, epoch) DO UPDATE SET last = excluded.last, hash = excluded.hash`
    )
    for (const run of runsOf(rows)) {
      const { begins, node, epoch } = run[0]!
      const asIs = Number(begins) === 0
      committer.enter(asIs ? Number(epoch) : (to.boot ??= committer.next.boot + 1))
      const first = committer.next.seq + 1
      add(to, (batch) => {
        for (const row of run)
          for (const column of entryColumns) batch.entries.push(column === 'ts_ms' ? Number(row[column]) : row[column]!)
      })
      const { seq, hash } = committer.next
      const last = run.at(-1)!
      if (!asIs) put.run(first, seq, node!, epoch!, last['hash']!)
      else if (hash !== last['hash'])
        throw new Error(`the journal of ${String(node)} does not go on as it did, at row ${Number(last['seq'])}`)
    }
  },

  origin(rows, { committer }) {
    const put = committer.database.prepare(
      'INSERT INTO journal_origin (first, last, node, epoch, hash) VALUES (?, ?, ?, ?, unhex(?))'
    )
    for (const { first, last, node, epoch, hash } of rows) put.run(first!, last!, node!, epoch!, hash!)
  },

  hold: (rows, to) =>
    add(to, (batch) => {
      for (const [i, row] of rows.entries()) {
        const id = to.before + i + 1
        const { channel = null, delivered = 0n, time = 0n, lease_until: until = null } = row
        const renamed: Row = {
          ...row,
          id,
          dispatched: channel === null ? 0 : 1,
          delivered_units: delivered,
          ts_ms: time
        }
        batch.opened.push(...valuesOf(renamed, holdColumns))
        if (until !== null) batch.leased.push(Number(until), id)
      }
    }),

  document: (rows, to) =>
    add(to, (batch) => {
      for (const { kind, id, json } of rows) batch.documents.push(kind!, id!, json!)
    }),

  secret: (rows, to) =>
    add(to, (batch) => {
      for (const row of rows) batch.documents.push('client_secret', row['sha256']!, secretJson(row))
    }),

  audit(rows, to) {
    add(to, (batch) => {
      for (const { time, json } of rows) batch.audit.push(Number(time), json!)
    })
    const last = rows.at(-1)
    if (last && to.committer.next.auditHash !== last['hash'])
      throw new Error(`the audit log does not go on as it did, at entry ${Number(last['seq'])}`)
  },

  route: (rows, to) =>
    add(to, (batch) => {
      for (const row of rows) batch.routes.push(...valuesOf(row, routeColumns))
    }),

  work: (rows, to) =>
    add(to, (batch) => {
      for (const row of rows) batch.works.push(...valuesOf(row, workColumns))
    }),

  /** Once more after a kill, at the same place of the file. */
  result(rows, { file }) {
    for (const { tenant, project, id, number, bytes } of rows) {
      const folder = resultsFolder(file)
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const name = nameOf({ tenant: tenant as string, project: project as string }, id as string)
      const path = join(folder, resultFile(name))
      const fd = openSync(path, existsSync(path) ? 'r+' : 'w', 0o600)
      try {
        writeSync(fd, bytes as Uint8Array, 0, (bytes as Uint8Array).byteLength, Number(number) * pieceBytes)
        fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
    }
  },

  answer: (rows, to) =>
    add(to, (batch) => {
      for (const row of rows) batch.answers.push(...valuesOf(row, answerColumns))
    }),

  /** One batch for all records that were written at one time. */
  request(rows, to) {
    for (const [written, records] of Map.groupBy(rows, (row) => Number(row['written'])))
      add(
        to,
        (batch) => {
          for (const { json, time } of records) {
            const record = JSON.parse(json as string) as RequestRecord
            batch.records.push(...recordValues(record, Number(time)))
          }
        },
        written
      )
  },

  /** The records add nothing: the book has sums of records that are gone, too. */
  traffic(rows, { committer }) {
    const put = (span: string) =>
      committer.database.prepare(`INSERT INTO traffic_${span} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    const statements = { minute: put('minute'), hour: put('hour') }
    const columns = ['scope', 'time', 'model', 'channel', 'requests', 'codes', 'input', 'output', 'cost', 'first']
    for (const row of rows)
      statements[row['span'] as 'minute' | 'hour'].run(
        ...valuesOf({ ...row, cost: BigInt(row['cost'] as string) }, columns)
      )
  }
}

interface BalanceRow {
  readonly scope: string
  readonly window: string
  readonly limit: bigint | null
  readonly posted: bigint
  readonly pending: bigint
}

/** A client secret as the document that a store of one machine has of it. */
function secretJson({ sha256, issuer, model, settings, expires, budget, posted, holds }: Row): string {
  const held = JSON.parse(holds as string) as object
  const spent = posted !== '0'
  return JSON.stringify({
    sha256,
    issuer,
    model,
    expires: Number(expires),
    ...(settings !== null && { settings }),
    ...(budget !== null && { budget }),
    ...((spent || Object.keys(held).length > 0) && { holds: held }),
    ...(spent && { posted })
  })
}

/** Adds a batch that `fill` fills. `written`: of its records, in Unix milliseconds. */
function add({ committer }: FileRows, fill: (batch: Batch) => void, written = 0): void {
  const batch = emptyBatch(0, written)
  fill(batch)
  committer.add(batch)
}

/** The rows in groups that follow each other in one chain. */
function runsOf(rows: readonly Row[]): Row[][] {
  const runs: Row[][] = []
  for (const row of rows) {
    const before = runs.at(-1)?.at(-1)
    if (before && before['node'] === row['node'] && before['epoch'] === row['epoch']) runs.at(-1)!.push(row)
    else runs.push([row])
  }
  return runs
}

function valuesOf(row: Row, columns: readonly string[]): Value[] {
  return columns.map((name) => bound(row[name]))
}

/** A value of PostgreSQL as SQLite takes it. */
function bound(value: unknown): Value {
  return typeof value === 'boolean' ? (value ? 1 : 0) : ((value ?? null) as Value)
}
