// The writer thread: owns the one connection that writes. Applies the commit log to the database, a segment per message.
import { randomBytes } from 'node:crypto'
import { ftruncateSync, writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { Handed } from './commit-log.ts'
import { Committer, readHead } from './committer.ts'
import { DamagedStore } from './damage.ts'
import { readFrames } from './frame-reader.ts'
import { missingMoves, recover } from './recovery.ts'
import { applyFrames, replay } from './replay.ts'
import { migrate, storedBalances } from './schema.ts'
import { baseOf, encodeNote, framesAt, historyBytes, makeSegments, noteAt } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import { isUnreadable, openDatabase, openForReading } from './sqlite.ts'
import type { Database, Durability, Value } from './sqlite.ts'
import { giveSpare, isFull } from './spare.ts'
import { checkLastEntry, survey } from './survey.ts'
import { Upkeep } from './upkeep.ts'
import type { Keeping } from './upkeep.ts'
import type { Volume } from './volume.ts'
import { horizon, windowOf } from './window.ts'

/** How a writer thread is started. */
export interface WriterOptions {
  file: string
  durability: Durability
  /** Unix milliseconds of the start. */
  now: number
  /** Undefined: nothing is ever let go of. */
  keeping: Keeping | undefined
  /** The history to go on with, after a thread of it died; undefined begins a new one, with a recovery. */
  history: string | undefined
}

/** What is read into memory when a store opens. Rows are as stored, integers as bigint. */
export interface Snapshot {
  /** As both segments of the commit log were made. */
  log: SegmentHead
  batch: number
  /** The newest `written` of the request log. */
  written: number
  recovered: number
  /** The highest id of a hold that is still open. */
  lastHold: number
  /** From when on there are all balances, in Unix milliseconds: the beginning of a month. */
  since: number
  balances: Record<string, Value>[]
  prices: Record<string, Value>[]
  keys: Record<string, Value>[]
  /** Holds that are kept for whoever goes on with the work. */
  detached: Record<string, Value>[]
  /** Work that has not ended, oldest first. */
  works: Record<string, Value>[]
  /** Bytes of results that are counted, by tenant. */
  room: Record<string, Value>[]
}

/** What the thread is asked: to apply a segment, or to close the database and end; `end` when nothing is left in the log. */
export type WriterRequest = Handed | 'close' | 'end'

/** What the thread says. */
export type WriterMessage =
  | { kind: 'open'; snapshot: Snapshot }
  /** Nothing of the segment counts as applied: it is to be sent again. */
  | { kind: 'failed'; error: string }
  | { kind: 'applied'; seconds: number }
  /** Of the upkeep: a slice failed, or one succeeded after that. */
  | { kind: 'upkeep'; error: string | undefined }
  | { kind: 'sealed'; volume: Volume }
  /** The disk was full, and records were let go of. */
  | { kind: 'relieved' }

/** A segment that grew beyond this gives its room back. */
const keptBytes = 16 * 1024 * 1024

const port = parentPort!
const options = workerData as WriterOptions
let history = options.history
let committer: Committer | undefined
/** The disk had no room when it was written last. */
let full = false
/** Sees to it that the database does not grow for ever, as long as the connection is sound. */
const upkeep = options.keeping && new Upkeep(options.keeping, options.file, options.now, {
  failed(error) {
    fail(error)
    say({ kind: 'upkeep', error: String(error) })
  },
  healed: () => say({ kind: 'upkeep', error: undefined }),
  sealed: (volume) => say({ kind: 'sealed', volume }),
  relieved: () => say({ kind: 'relieved' })
})

port.on('message', (request: WriterRequest) => {
  if (request === 'close' || request === 'end') {
    if (request === 'end') seal()
    abandon()
    port.close()
    return
  }
  const began = performance.now()
  try {
    committer ??= reopen()
    if (relieve(committer)) say({ kind: 'relieved' })
    applySegment(committer, request.fd)
    if (committer.head.batch < request.last) {
      throw new Error(`${request.path} is damaged: it ends with batch ${committer.head.batch} instead of ${request.last}`)
    }
    say({ kind: 'applied', seconds: (performance.now() - began) / 1000 })
    upkeep?.begin(committer)
  } catch (error) {
    fail(error)
    say({ kind: 'failed', error: String(error) })
  }
})

try {
  if (history === undefined) {
    say({ kind: 'open', snapshot: open() })
    upkeep?.begin(committer!)
  }
} catch (error) {
  abandon()
  say({ kind: 'failed', error: error instanceof Error ? error.message : String(error) })
}

function say(message: WriterMessage): void {
  port.postMessage(message)
}

/** A start on a full disk is tried once more, with the room that was kept for it. */
function open(): Snapshot {
  try {
    return start()
  } catch (error) {
    if (isUnreadable(error)) {
      leave()
      throw new DamagedStore(options.file, [{ file: options.file, text: `is damaged: ${(error as Error).message}` }])
    }
    if (!isFull(error)) throw error
    fail(error)
    return start()
  }
}

/** The connection is not to be used any more; a full disk gets the room that was kept for it. */
function fail(error: unknown): void {
  abandon()
  if (!isFull(error)) return
  full = true
  giveSpare(options.file)
}

/** After a full disk the oldest records make room in the database, which goes on in it. */
function relieve(committer: Committer): boolean {
  const relieved = full && upkeep?.relieve(committer) === true
  full = false
  return relieved
}

function start(): Snapshot {
  const found = survey(options.file)
  if (found.damage.length > 0) throw new DamagedStore(options.file, found.damage)
  const database = openDatabase(options.file, options.durability)
  migrate(database, options.file)
  committer = new Committer(database)
  relieve(committer)
  replay(committer, found.log)
  const log = { history: randomBytes(historyBytes).toString('hex'), boot: committer.head.boot + 1, base: baseOf(committer.head) }
  makeSegments(options.file, options.durability, log)
  committer.boot(missingMoves(committer), log.history, options.now)
  history = log.history
  const all = (sql: string, ...values: Value[]): Record<string, Value>[] => {
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return statement.all(...values) as Record<string, Value>[]
  }
  const [newest] = all('SELECT written FROM request ORDER BY seq DESC LIMIT 1')
  const written = Math.max(options.now, Number(newest?.['written'] ?? 0))
  const recovered = recover(committer, written, options.now)
  const detached = all('SELECT * FROM reservation ORDER BY id')
  const since = horizon(detached.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), options.now))
  return {
    log,
    batch: committer.head.batch,
    written,
    recovered,
    lastHold: Number(all('SELECT coalesce(max(id), 0) AS id FROM reservation')[0]!['id']),
    since,
    balances: storedBalances(database, windowOf('month', since)),
    prices: all('SELECT * FROM price'),
    keys: all('SELECT * FROM key ORDER BY created, name'),
    detached,
    works: all('SELECT json FROM work WHERE open = 1 ORDER BY created'),
    room: all('SELECT tenant, sum(bytes) AS bytes FROM work WHERE bytes IS NOT NULL GROUP BY tenant')
  }
}

/** Applies the batches of a segment that follow the last one applied. */
function applySegment(committer: Committer, fd: number): void {
  const length = applyFrames(committer, readFrames(fd, committer.head.history, committer.head.batch, framesAt))
  if (length <= keptBytes) return
  // Nothing else says any more how far the log has gone.
  const note = encodeNote(committer.head.history, committer.head.batch)
  writeSync(fd, note, 0, note.length, noteAt)
  ftruncateSync(fd, framesAt)
}

/** The next start needs no log. A disk that does not take this loses nothing: the log says the same. */
function seal(): void {
  try {
    committer?.alter((head) => void (head.open = false))
  } catch {
    abandon()
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

/** The journal must end as the head says, in this history. */
function verifyHead(database: Database): void {
  const head = readHead(database)
  if (head.history !== history) throw new Error(`${options.file} was written by another process: history ${head.history} of start ${head.boot} instead of ${history}`)
  const damage = checkLastEntry(database, head)
  if (damage !== undefined) throw new Error(`${options.file} ${damage}`)
}

/** The last connection that is closed moves the write-ahead log into the database, and a damaged one would take it along: one that only reads is last. */
function leave(): void {
  const last = openForReading(options.file)
  try {
    last.prepare('SELECT count(*) FROM sqlite_schema').get()
  } catch {
    // It need not be able to read.
  }
  abandon()
  last.close()
}

function abandon(): void {
  try {
    committer?.database.close()
  } catch {
    // The connection is being given up; a disk that fails may fail its closing too.
  }
  committer = undefined
  upkeep?.stop()
}
