// Applies batches to the database, a run of them in one transaction. Runs in the writer thread.
import { entryColumns, holdColumns, keyColumns, recordColumns } from './batch.ts'
import type { Batch } from './batch.ts'
import { entryHash, entryWidth } from './journal.ts'
import type { Database, Statement, Value } from './sqlite.ts'

/** Requests per block of the table request_block. */
export const blockSize = 1024

/** Where the writer stands, as stored in the table head. */
export interface Head {
  boot: number
  /** The last batch committed in this boot. */
  batch: number
  /** The journal's last row. */
  seq: number
  hash: string
  /** The last batch, and the last journal row, that the balances include. */
  balancedBatch: number
  balancedSeq: number
}

const fields = ['tenant', 'key', 'model'] as const

const [dispatchedColumn, channelColumn, deliveredColumn] = (['dispatched', 'channel', 'delivered_units'] as const).map((name) => holdColumns.indexOf(name)) as [number, number, number]

/** The statements of one connection. After any error the connection is to be closed: nothing here can be relied on. */
export class Committer {
  readonly database: Database
  readonly #sql: ReturnType<typeof prepare>
  #head: Head
  /** The last row of the table request. */
  #request: number
  /** Values that occur in its block, by field. */
  readonly #block: readonly Set<string>[]

  constructor(database: Database) {
    this.database = database
    this.#sql = prepare(database)
    this.#head = readHead(database)
    this.#request = Number(database.prepare('SELECT coalesce(max(seq), 0) AS seq FROM request').get()!['seq'])
    const block = database.prepare('SELECT tenant, key, model FROM request WHERE seq >= ?').all(this.#request - (this.#request % blockSize))
    this.#block = fields.map((field) => new Set(block.map((row) => row[field]).filter((value) => typeof value === 'string')))
  }

  get head(): Readonly<Head> {
    return this.#head
  }

  /** Begins a new boot, whose balances are up to date with these moves. Holds of earlier boots are the recovery's from now on. */
  boot(moves: Batch['moves']): void {
    const { boot, seq, hash } = this.#head
    this.#commit(() => {
      this.#balances(moves, [])
      return { boot: boot + 1, batch: 0, seq, hash, balancedBatch: 0, balancedSeq: seq }
    })
  }

  /** Commits batches that follow each other; when it throws, nothing of them is stored, unless the error came from the commit itself. */
  apply(batches: readonly Batch[]): void {
    this.#commit(() => {
      const head = { ...this.#head }
      const holds = new Map<number, Value[] | undefined>()
      for (const batch of batches) {
        forEach(batch.prices, 2, this.#sql.price)
        this.#balances(batch.moves, batch.limits)
        this.#holds(batch, holds)
        this.#journal(batch.entries, head)
        this.#records(batch)
        forEach(batch.keys, keyColumns.length, this.#sql.key)
        head.batch = batch.number
        if (batch.balanced) [head.balancedBatch, head.balancedSeq] = [batch.number, head.seq]
      }
      for (const [id, row] of holds) {
        if (row) this.#sql.open.run(...row, head.boot)
        else this.#sql.close.run(id)
      }
      return head
    })
  }

  #commit(work: () => Head): void {
    this.#sql.begin.run()
    const head = work()
    this.#sql.head.run(head.boot, head.batch, head.seq, Buffer.from(head.hash, 'hex'), head.balancedBatch, head.balancedSeq)
    this.#sql.commit.run()
    this.#head = head
  }

  #balances(moves: Batch['moves'], limits: Batch['limits']): void {
    const { move, balance, limit } = this.#sql
    for (let i = 0; i < moves.length; i += 4) {
      const [scope, window, posted, pending] = [moves[i]!, moves[i + 1]!, moves[i + 2]!, moves[i + 3]!]
      if (move.run(posted, pending, scope, window).changes === 0) balance.run(scope, window, posted, pending)
    }
    forEach(limits, 3, limit)
  }

  /** Gathers what becomes of the rows, by id: most holds end in the run in which they began, and never have one. */
  #holds({ opened, touched, closed }: Batch, rows: Map<number, Value[] | undefined>): void {
    for (let i = 0; i < touched.length; i += 3) {
      const [channel, delivered, id] = [touched[i]!, touched[i + 1]!, touched[i + 2]!]
      const row = rows.get(id as number)
      if (row) [row[dispatchedColumn], row[channelColumn], row[deliveredColumn]] = [channel === null ? 0 : 1, channel, delivered]
      else this.#sql.touch.run(channel, delivered, id)
    }
    for (let i = 0; i < opened.length; i += holdColumns.length) rows.set(opened[i] as number, opened.slice(i, i + holdColumns.length))
    for (const id of closed) rows.set(id, undefined)
  }

  /** Adds the rows, and moves the head with them. */
  #journal(entries: readonly Value[], head: Head): void {
    let previous = Buffer.from(head.hash, 'hex')
    for (let i = 0; i < entries.length; i += entryWidth) {
      head.seq++
      head.hash = entryHash(head.hash, head.seq, head.boot, entries, i)
      const bytes = Buffer.from(head.hash, 'hex')
      this.#sql.entry.run(...entries.slice(i, i + entryWidth), head.seq, head.boot, previous, bytes)
      previous = bytes
    }
  }

  #records({ records, written }: Batch): void {
    const { record } = this.#sql
    for (let i = 0; i < records.length; i += recordColumns.length) {
      const seq = ++this.#request
      if (seq % blockSize === 0) this.#closeBlock(seq / blockSize - 1)
      record.run(...records.slice(i, i + recordColumns.length), seq, written)
      for (let field = 0; field < fields.length; field++) {
        const value = records[i + 1 + field]
        if (typeof value === 'string') this.#block[field]!.add(value)
      }
    }
  }

  /** Sorted, so that the rows land beside each other. */
  #closeBlock(block: number): void {
    for (let field = 0; field < fields.length; field++) {
      for (const value of [...this.#block[field]!].sort()) this.#sql.block.run(block, fields[field]!, value)
      this.#block[field]!.clear()
    }
  }
}

/** Runs a statement for each `width` values. */
function forEach(values: readonly Value[], width: number, statement: Statement): void {
  for (let i = 0; i < values.length; i += width) statement.run(...values.slice(i, i + width))
}

function prepare(database: Database) {
  const insert = (table: string, columns: readonly string[], conflict = '', or = ''): Statement =>
    database.prepare(`INSERT ${or} INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) ${conflict}`)
  return {
    begin: database.prepare('BEGIN IMMEDIATE'),
    commit: database.prepare('COMMIT'),
    price: insert('price', ['version', 'json'], 'ON CONFLICT DO NOTHING'),
    move: database.prepare('UPDATE balance SET posted = posted + ?, pending = pending + ? WHERE scope = ? AND window = ?'),
    balance: insert('balance', ['scope', 'window', 'posted', 'pending']),
    limit: database.prepare('UPDATE balance SET "limit" = ? WHERE scope = ? AND window = ?'),
    open: insert('reservation', [...holdColumns, 'boot_id'], '', 'OR REPLACE'),
    touch: database.prepare('UPDATE reservation SET dispatched = ?1 IS NOT NULL, channel = ?1, delivered_units = ?2 WHERE id = ?3'),
    close: database.prepare('DELETE FROM reservation WHERE id = ?'),
    entry: insert('journal', [...entryColumns, 'seq', 'boot_id', 'prev_hash', 'hash']),
    // A record that is there already stays: a log that is told twice must not stop the ledger.
    record: insert('request', [...recordColumns, 'seq', 'written'], 'ON CONFLICT (request_id) DO NOTHING'),
    block: insert('request_block', ['block', 'field', 'value']),
    key: insert('key', keyColumns, 'ON CONFLICT (name) DO UPDATE SET revoked = excluded.revoked'),
    head: database.prepare('UPDATE head SET boot_id = ?, batch = ?, seq = ?, hash = ?, balanced_batch = ?, balanced_seq = ?')
  }
}

/** The stored head. */
export function readHead(database: Database): Head {
  const row = database.prepare('SELECT * FROM head').get()!
  return {
    boot: Number(row['boot_id']),
    batch: Number(row['batch']),
    seq: Number(row['seq']),
    hash: Buffer.from(row['hash'] as Uint8Array).toString('hex'),
    balancedBatch: Number(row['balanced_batch']),
    balancedSeq: Number(row['balanced_seq'])
  }
}
