// The writer thread: owns the one connection that writes. Applies the commit log to the database, a segment per
// message.
import { randomBytes } from 'node:crypto'
import { ftruncateSync, writeSync } from 'node:fs'
import type { Handed } from './commit-log.ts'
import { Committer } from './committer.ts'
import { readHead } from './head.ts'
import { DamagedStore } from './damage.ts'
import { readFrames } from './frame-reader.ts'
import { missingMoves, recover } from './recovery.ts'
import type { Recovered } from './recovery.ts'
import { applyFrames, replay } from './replay.ts'
import { migrate, storedBalances } from './schema.ts'
import { baseOf, encodeNote, framesAt, historyBytes, makeSegments, noteAt } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import { serve } from './service.ts'
import type { Service } from './service.ts'
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
  recovered: Recovered
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

/**
 * What the thread is asked: to apply a segment, or, when nothing is left in the log and the store closes, to say so in
 * the database.
 */
export type WriterRequest = Handed | 'seal'

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

/** The writer of one store. */
class StoreWriter implements Service<WriterRequest> {
  readonly #options: WriterOptions
  readonly #say: (message: WriterMessage) => void
  #history: string | undefined
  #committer: Committer | undefined
  /** The disk had no room when it was written last. */
  #full = false
  /** Sees to it that the database does not grow for ever, as long as the connection is sound. */
  readonly #upkeep: Upkeep | undefined

  /** Opens the database and says what came of that, unless it goes on with a history. */
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
      // The connection is being given up; a disk that fails may fail its closing too.
    }
    this.#committer = undefined
    this.#upkeep?.stop()
  }

  /** A start on a full disk is tried once more, with the room that was kept for it. */
  #open(): Snapshot {
    try {
      return this.#start()
    } catch (error) {
      if (isUnreadable(error)) {
        this.#leave()
        throw new DamagedStore(this.#options.file, [
          { file: this.#options.file, text: `is damaged: ${(error as Error).message}` }
        ])
      }
      if (!isFull(error)) throw error
      this.#fail(error)
      return this.#start()
    }
  }

  /** The connection is not to be used any more; a full disk gets the room that was kept for it. */
  #fail(error: unknown): void {
    this.end()
    if (!isFull(error)) return
    this.#full = true
    giveSpare(this.#options.file)
  }

  /** After a full disk the oldest records make room in the database, which goes on in it. */
  #relieve(committer: Committer): boolean {
    const relieved = this.#full && this.#upkeep?.relieve(committer) === true
    this.#full = false
    return relieved
  }

  #start(): Snapshot {
    const { file, durability, now } = this.#options
    const found = survey(file)
    if (found.damage.length > 0) throw new DamagedStore(file, found.damage)
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
    const recovered = recover(committer, written, now)
    const detached = all('SELECT * FROM reservation ORDER BY id')
    const since = horizon(detached.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), now))
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

  /** The next start needs no log. A disk that does not take this loses nothing: the log says the same. */
  #seal(): void {
    try {
      this.#committer?.alter((head) => void (head.open = false))
    } catch {
      this.end()
    }
  }

  /**
   * A fresh connection after a failure. What the failed one wrote may look stored and not be: a sync that failed is not
   * repeated by the kernel. So everything is written and synced anew, by a whole checkpoint, before it is believed.
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

  /** The journal must end as the head says, in this history. */
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
   * The last connection that is closed moves the write-ahead log into the database, and a damaged one would take it
   * along: one that only reads is last.
   */
  #leave(): void {
    const last = openForReading(this.#options.file)
    try {
      last.prepare('SELECT count(*) FROM sqlite_schema').get()
    } catch {
      // It need not be able to read.
    }
    this.end()
    last.close()
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

serve((options: WriterOptions, say: (message: WriterMessage) => void) => new StoreWriter(options, say))
