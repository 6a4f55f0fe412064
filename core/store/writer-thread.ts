// The writer thread: owns the one connection that writes. Commits a batch per message and answers each with one message.
import { parentPort, workerData } from 'node:worker_threads'
import type { Batch } from './batch.ts'
import { Committer, readHead } from './committer.ts'
import { entryColumns } from './batch.ts'
import { entryHash } from './journal.ts'
import { missingMoves, recover } from './recovery.ts'
import { migrate } from './schema.ts'
import { openDatabase } from './sqlite.ts'
import type { Database, Durability, Value } from './sqlite.ts'
import { horizon } from './window.ts'

/** How a writer thread is started. */
export interface WriterOptions {
  file: string
  durability: Durability
  /** Unix milliseconds of the start. */
  now: number
  /** The boot to go on with, after a thread of it died; undefined begins a new one, with a recovery. */
  boot: number | undefined
}

/** What is read into memory when a store opens. Rows are as stored, integers as bigint. */
export interface Snapshot {
  boot: number
  batch: number
  /** The newest `written` of the request log. */
  written: number
  recovered: number
  /** The highest id of a hold that is still open. */
  lastHold: number
  balances: Record<string, Value>[]
  prices: Record<string, Value>[]
  keys: Record<string, Value>[]
}

/** What the thread says. */
export type WriterMessage =
  | { kind: 'open'; snapshot: Snapshot }
  /** Nothing of the batch counts as stored: it is to be sent again. */
  | { kind: 'failed'; error: string }
  | { kind: 'committed'; seconds: number }
  | { kind: 'closed' }

const port = parentPort!
const options = workerData as WriterOptions
let boot = options.boot
let committer: Committer | undefined

port.on('message', (batch: Batch | 'close') => {
  if (batch === 'close') {
    committer?.database.close()
    say({ kind: 'closed' })
    port.close()
    return
  }
  const began = performance.now()
  try {
    committer ??= reopen()
    if (committer.head.batch < batch.number) committer.apply(batch)
    say({ kind: 'committed', seconds: (performance.now() - began) / 1000 })
  } catch (error) {
    abandon()
    say({ kind: 'failed', error: String(error) })
  }
})

try {
  if (boot === undefined) say({ kind: 'open', snapshot: start() })
} catch (error) {
  abandon()
  say({ kind: 'failed', error: error instanceof Error ? error.message : String(error) })
}

function say(message: WriterMessage): void {
  port.postMessage(message)
}

function start(): Snapshot {
  const database = openDatabase(options.file, options.durability)
  migrate(database, options.file)
  committer = new Committer(database)
  committer.boot(missingMoves(committer))
  boot = committer.head.boot
  const all = (sql: string, ...values: Value[]): Record<string, Value>[] => {
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return statement.all(...values) as Record<string, Value>[]
  }
  const [newest] = all('SELECT written FROM request ORDER BY seq DESC LIMIT 1')
  const written = Math.max(options.now, Number(newest?.['written'] ?? 0))
  const recovered = recover(committer, written)
  return {
    boot,
    batch: committer.head.batch,
    written,
    recovered,
    lastHold: Number(all('SELECT coalesce(max(id), 0) AS id FROM reservation')[0]!['id']),
    balances: all('SELECT * FROM balance WHERE window >= ? ORDER BY scope, window', horizon(options.now)),
    prices: all('SELECT * FROM price'),
    keys: all('SELECT * FROM key ORDER BY created, name')
  }
}

/**
 * A fresh connection after a failure. What the failed one wrote may look stored and not be: a sync that failed is not
 * repeated by the kernel. So everything is written and synced anew, by a whole checkpoint, before it is believed.
 */
function reopen(): Committer {
  const database = openDatabase(options.file, options.durability)
  try {
    const checkpoint = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()!
    if (checkpoint['busy'] !== 0) throw new Error('the write-ahead log is in use by a reader: it is checked when the reader is done')
    verifyHead(database)
    return new Committer(database)
  } catch (error) {
    database.close()
    throw error
  }
}

/** The journal must end as the head says, in this boot. */
function verifyHead(database: Database): void {
  const head = readHead(database)
  if (head.boot !== boot) throw new Error(`${options.file} was written by another process: boot ${head.boot} instead of ${boot}`)
  const statement = database.prepare(`SELECT seq, boot_id, lower(hex(prev_hash)) AS previous, ${entryColumns.join(', ')} FROM journal ORDER BY seq DESC LIMIT 1`)
  statement.setReadBigInts(true)
  const last = statement.get()
  if (Number(last?.['seq'] ?? 0) !== head.seq) throw new Error(`${options.file} is damaged: the journal ends at row ${last?.['seq']} instead of ${head.seq}`)
  if (!last) return
  const columns = entryColumns.map((name) => last[name] as Value)
  if (entryHash(last['previous'] as string, head.seq, Number(last['boot_id']), columns, 0) !== head.hash) {
    throw new Error(`${options.file} is damaged: row ${head.seq} of the journal does not have the hash it was written with`)
  }
}

function abandon(): void {
  try {
    committer?.database.close()
  } catch {
    // The connection is being given up; a disk that fails may fail its closing too.
  }
  committer = undefined
}
