// What the writer thread does: it owns the only connection that writes, and applies the commit log to the database, a
// segment per request. Until the first segment it is done by the thread that opened the store.
import { randomBytes } from 'node:crypto'
import { ftruncateSync, writeSync } from 'node:fs'
import type { Handed } from '../log/commit-log.ts'
import { Committer } from '../database/committer.ts'
import { readHead } from '../database/head.ts'
import { DamagedStore } from '../files/damage.ts'
import { readFrames } from '../log/frame-reader.ts'
import { missingMoves, recover } from '../recovery/recovery.ts'
import type { Recovered } from '../recovery/recovery.ts'
import { applyFrames, replay } from '../recovery/replay.ts'
import { migrate } from '../database/migration.ts'
import { storedBalances } from '../database/stored-balances.ts'
import { baseOf, encodeNote, framesAt, historyBytes, makeSegments, noteAt } from '../log/segment.ts'
import type { SegmentHead } from '../log/segment.ts'
import type { Service } from '../threads/service.ts'
import { isUnreadable, openDatabase, openForReading } from '../files/sqlite.ts'
import type { Database, Durability, Value } from '../files/sqlite.ts'
import { giveSpare, isFull } from '../files/spare.ts'
import { checkLastEntry, survey } from '../recovery/survey.ts'
import { Upkeep } from '../upkeep/upkeep.ts'
import type { Keeping } from '../upkeep/upkeep.ts'
import type { Volume } from '../journal/volume.ts'
import { horizon } from '../../window.ts'

/** The options of a writer thread. */
export interface WriterOptions {
  file: string
  durability: Durability
  /** Unix milliseconds of the start. */
  now: number
  /** Undefined: nothing is ever deleted. */
  keeping: Keeping | undefined
  /** The requests whose holds the process before goes on with. */
  kept: readonly string[]
  /** The history to continue, after the thread for it died. Undefined begins a new history, with a recovery. */
  history: string | undefined
}

/** What is read into memory when a store opens. Rows are as stored, with integers as bigint. */
export interface Snapshot {
  /** The head that both segments of the commit log were made with. */
  log: SegmentHead
  batch: number
  /** The latest `written` of the request log, or the time of the start if that is later. Unix milliseconds. */
  written: number
  recovered: Recovered
  /** The highest id of a hold that is still open. */
  lastHold: number
  /** From when on the balances of all windows are included: the beginning of a month, in Unix milliseconds. */
  since: number
  balances: Record<string, Value>[]
  prices: Record<string, Value>[]
  documents: Record<string, Value>[]
  /** The open holds: those that were detached, and those that the process before goes on with. */
  open: Record<string, Value>[]
  /** The open work, oldest first. */
  works: Record<string, Value>[]
  /** The bytes of counted results, by tenant. */
  room: Record<string, Value>[]
}

/**
 * A request to the thread: to apply a segment; or to mark the store as closed in the database, when the log has nothing
 * left.
 */
export type WriterRequest = Handed | 'seal'

/** A message from the thread. */
export type WriterMessage =
  | { kind: 'open'; snapshot: Snapshot }
  /** The segment was not applied, and must be sent again. */
  | { kind: 'failed'; error: string }
  | { kind: 'applied'; seconds: number }
  /** A slice of the upkeep failed; without an error, one succeeded after that. */
  | { kind: 'upkeep'; error: string | undefined }
  | { kind: 'sealed'; volume: Volume }
  /** The disk was full, and records were deleted. */
  | { kind: 'relieved' }

/** A segment larger than this is truncated after it was applied. */
const keptBytes = 16 * 1024 * 1024

/** The writer of one store. */
export class StoreWriter implements Service<WriterRequest> {
  readonly #options: WriterOptions
  readonly #say: (message: WriterMessage) => void
  #history: string | undefined
  #committer: Committer | undefined
  /** Whether the disk was full at the last failure. */
  #full = false
  /** Keeps the database from growing for ever. It has the connection as long as that works. */
  readonly #upkeep: Upkeep | undefined

  /** Opens the database and sends the result as a message, unless it continues a history. */
  constructor(options: WriterOptions, say: (message: WriterMessage) => void) {
    this.#options = options
    this.#say = say
    this.#history = options.history
    this.#upkeep =
      options.keeping &&
      new Upkeep(options.keeping, options.file, options.now, {
        failed: (error) => {
          this.#fail(error)
          say({ kind: 'upkeep', error: String(error) })
        },
        healed: () => say({ kind: 'upkeep', error: undefined }),
        sealed: (volume) => say({ kind: 'sealed', volume }),
        relieved: () => say({ kind: 'relieved' })
      })
    if (options.history !== undefined) return
    try {
      say({ kind: 'open', snapshot: this.#open() })
      this.#upkeep?.begin(this.#committer!)
    } catch (error) {
      this.end()
      say({ kind: 'failed', error: error instanceof Error ? error.message : String(error) })
    }
  }

  ask(request: WriterRequest): void {
    if (request === 'seal') return this.#seal()
    const began = performance.now()
    try {
      const committer = (this.#committer ??= this.#reopen())
      if (this.#relieve(committer)) this.#say({ kind: 'relieved' })
      applySegment(committer, request.fd)
      if (committer.head.batch < request.last) {
        throw new Error(
          `${request.path} is damaged: it ends with batch ${committer.head.batch} instead of ${request.last}`
        )
      }
      this.#say({ kind: 'applied', seconds: (performance.now() - began) / 1000 })
      this.#upkeep?.begin(committer)
    } catch (error) {
      this.#fail(error)
      this.#say({ kind: 'failed', error: String(error) })
    }
  }

  /** Closes the database. */
  end(): void {
    try {
      this.#committer?.database.close()
    } catch {
      // The connection is not used any more, and closing it may fail on a failing disk too.
    }
    this.#committer = undefined
    this.#upkeep?.stop()
  }

  /** Opens the store. On a full disk it tries once more, after the spare file was deleted. */
  #open(): Snapshot {
    try {
      return this.#start()
    } catch (error) {
      if (isUnreadable(error)) {
        this.#leave()
        throw DamagedStore.of(this.#options.file, [
          { file: this.#options.file, text: `is damaged: ${(error as Error).message}` }
        ])
      }
      if (!isFull(error)) throw error
      this.#fail(error)
      return this.#start()
    }
  }

  /** Closes the connection after an error. On a full disk it deletes the spare file. */
  #fail(error: unknown): void {
    this.end()
    if (!isFull(error)) return
    this.#full = true
    giveSpare(this.#options.file)
  }

  /** After the disk was full, deletes the oldest records, so that the database has free pages to write to. */
  #relieve(committer: Committer): boolean {
    const relieved = this.#full && this.#upkeep?.relieve(committer) === true
    this.#full = false
    return relieved
  }

  #start(): Snapshot {
    const { file, durability, now, kept } = this.#options
    const found = survey(file)
    if (found.damage.length > 0) throw DamagedStore.of(file, found.damage)
    const database = openDatabase(file, durability, (opened) => migrate(opened, file))
    const committer = (this.#committer = new Committer(database))
    this.#relieve(committer)
    replay(committer, found.log)
    const log = {
      history: randomBytes(historyBytes).toString('hex'),
      boot: committer.head.boot + 1,
      base: baseOf(committer.head)
    }
    makeSegments(file, durability, log)
    committer.boot(missingMoves(committer), log.history, now)
    this.#history = log.history
    const all = (sql: string, ...values: Value[]): Record<string, Value>[] => {
      const statement = database.prepare(sql)
      statement.setReadBigInts(true)
      return statement.all(...values) as Record<string, Value>[]
    }
    const [newest] = all('SELECT written FROM request ORDER BY seq DESC LIMIT 1')
    const written = Math.max(now, Number(newest?.['written'] ?? 0))
    const recovered = recover(committer, written, now, kept)
    const open = all('SELECT * FROM reservation ORDER BY id')
    const since = horizon(open.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), now))
    return {
      log,
      batch: committer.head.batch,
      written,
      recovered,
      lastHold: Number(all('SELECT coalesce(max(id), 0) AS id FROM reservation')[0]!['id']),
      since,
      balances: storedBalances(database, since),
      prices: all('SELECT * FROM price'),
      documents: all('SELECT kind, id, json FROM document ORDER BY number'),
      open,
      works: all('SELECT json FROM work WHERE open = 1 ORDER BY created'),
      room: all('SELECT tenant, sum(bytes) AS bytes FROM work WHERE bytes IS NOT NULL GROUP BY tenant')
    }
  }

  /**
   * Marks the store as closed, so that the next start needs no log. If the disk fails here, nothing is lost, because
   * the log is still there.
   */
  #seal(): void {
    try {
      this.#committer?.alter((head) => void (head.open = false))
    } catch {
      this.end()
    }
  }

  /**
   * Opens a new connection after a failure. Data that the failed one wrote may seem stored without being so, because
   * the kernel does not repeat a failed sync. So a full checkpoint writes and syncs everything again first.
   */
  #reopen(): Committer {
    const database = openDatabase(this.#options.file, this.#options.durability)
    try {
      const checkpoint = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()!
      if (checkpoint['busy'] !== 0)
        throw new Error('the write-ahead log is in use by a reader: it is checked when the reader is done')
      this.#verifyHead(database)
      return new Committer(database)
    } catch (error) {
      database.close()
      throw error
    }
  }

  /** Checks that the journal ends as the head says, and that the history is the one of this thread. */
  #verifyHead(database: Database): void {
    const { file } = this.#options
    const head = readHead(database)
    if (head.history !== this.#history)
      throw new Error(
        `${file} was written by another process: history ${head.history} of start ${head.boot} instead of ${this.#history}`
      )
    const damage = checkLastEntry(database, head)
    if (damage !== undefined) throw new Error(`${file} ${damage}`)
  }

  /**
   * Closes a damaged database. The last connection to close would move the write-ahead log into the database, damage
   * included. So a read-only connection is closed last.
   */
  #leave(): void {
    const last = openForReading(this.#options.file)
    try {
      last.prepare('SELECT count(*) FROM sqlite_schema').get()
    } catch {
      // The connection counts even if it cannot read.
    }
    this.end()
    last.close()
  }
}

/** Applies the batches of a segment that follow the last one applied. */
function applySegment(committer: Committer, fd: number): void {
  const length = applyFrames(committer, readFrames(fd, committer.head.history, committer.head.batch, framesAt))
  if (length <= keptBytes) return
  // After truncation nothing else shows how far the log has gone, so the segment gets a note.
  const note = encodeNote(committer.head.history, committer.head.batch)
  writeSync(fd, note, 0, note.length, noteAt)
  ftruncateSync(fd, framesAt)
}
