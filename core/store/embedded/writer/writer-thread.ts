// What the writer thread does: it owns the only connection that writes, and applies the commit log to the database, a
// segment per request. Until the first segment it is done by the thread that opened the store.
import { Committer } from '../database/committer.ts'
import { readHead } from '../database/head.ts'
import { DamagedStore } from '../files/damage.ts'
import type { Handed } from '../log/batch-log.ts'
import type { Service } from '../threads/service.ts'
import { isUnreadable, openDatabase, openForReading } from '../files/sqlite.ts'
import type { Database } from '../files/sqlite.ts'
import { giveSpare, isFull } from '../files/spare.ts'
import { checkLastEntry } from '../recovery/survey.ts'
import { JournalDamage } from '../segments/journal-damage.ts'
import { Upkeep } from '../upkeep/upkeep.ts'
import type { Feed, SealedVolume, WriterOptions } from './feed.ts'
import { JournalFeed } from './journal-feed.ts'
import { LogFeed } from './log-feed.ts'
import type { Snapshot } from './snapshot.ts'

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
  /** `spent`: the files of the log that nothing needs any more. */
  | { kind: 'applied'; seconds: number; spent: string[] }
  /** A slice of the upkeep, or of keeping the journal, failed; without an error, one succeeded after that. */
  | { kind: 'upkeep'; of: 'upkeep' | 'keeping'; error: string | undefined }
  | { kind: 'sealed'; volume: SealedVolume }
  /** The disk was full, and records were deleted. */
  | { kind: 'relieved' }

/** The writer of one store. */
export class StoreWriter implements Service<WriterRequest> {
  readonly #options: WriterOptions
  readonly #say: (message: WriterMessage) => void
  readonly #feed: Feed
  #committer: Committer | undefined
  /** Whether what an earlier connection wrote may only seem to be stored, as it has failed. */
  #doubted: boolean
  /** Whether the disk was full at the last failure. */
  #full = false
  /** Keeps the database from growing for ever. It has the connection as long as that works. */
  readonly #upkeep: Upkeep | undefined

  /** Opens the database and sends the result as a message, unless it continues a history. */
  constructor(options: WriterOptions, say: (message: WriterMessage) => void) {
    this.#options = options
    this.#doubted = options.doubted
    this.#say = say
    this.#feed = options.segments
      ? new JournalFeed(options, {
          keeping: (error) => say({ kind: 'upkeep', of: 'keeping', error }),
          sealed: (volume) => say({ kind: 'sealed', volume })
        })
      : new LogFeed(options)
    this.#upkeep =
      options.keeping &&
      new Upkeep(options.keeping, options.file, options.now, {
        failed: (error) => this.#neglect(error),
        healed: () => say({ kind: 'upkeep', of: 'upkeep', error: undefined }),
        sealed: (volume) => say({ kind: 'sealed', volume }),
        relieved: () => say({ kind: 'relieved' })
      })
    if (options.log) return
    try {
      say({ kind: 'open', snapshot: this.#open() })
    } catch (error) {
      this.end()
      say({ kind: 'failed', error: error instanceof Error ? error.message : String(error) })
      return
    }
    this.#keep()
  }

  ask(request: WriterRequest): void {
    if (request === 'seal') return this.#seal()
    const began = performance.now()
    try {
      const committer = (this.#committer ??= this.#reopen())
      if (this.#relieve(committer)) this.#say({ kind: 'relieved' })
      const spent = this.#feed.apply(committer, request)
      this.#say({ kind: 'applied', seconds: (performance.now() - began) / 1000, spent })
    } catch (error) {
      this.#fail(error)
      return this.#say({ kind: 'failed', error: String(error) })
    }
    this.#keep()
  }

  /** Releases everything. */
  end(): void {
    this.#close()
    this.#feed.end()
  }

  /** Closes the database. */
  #close(): void {
    try {
      this.#committer?.database.close()
    } catch {
      // The connection is not used any more, and closing it may fail on a failing disk too.
    }
    this.#committer = undefined
    this.#upkeep?.stop()
  }

  /** Has the upkeep begin, unless it has. What was asked is done, whether it can or not. */
  #keep(): void {
    try {
      this.#upkeep?.begin(this.#committer!)
    } catch (error) {
      this.#neglect(error)
    }
  }

  /** Tells that the upkeep failed. It waits for the next connection. */
  #neglect(error: unknown): void {
    this.#fail(error)
    this.#say({ kind: 'upkeep', of: 'upkeep', error: String(error) })
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
      if (error instanceof JournalDamage)
        throw DamagedStore.of(this.#options.file, [{ file: error.path, text: error.text }])
      if (!isFull(error)) throw error
      this.#fail(error)
      return this.#start()
    }
  }

  /** Closes the connection after an error. On a full disk it deletes the spare file. */
  #fail(error: unknown): void {
    this.#doubted = true
    this.#close()
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
    return this.#feed.start(() => {
      const { file } = this.#options
      const committer = new Committer(openDatabase(file, this.#feed.durability, (opened) => this.#feed.prepare(opened)))
      this.#committer = committer
      this.#relieve(committer)
      return committer
    })
  }

  #seal(): void {
    try {
      if (this.#committer) this.#feed.close(this.#committer)
    } catch {
      this.#close()
    }
  }

  /**
   * Opens a new connection, after that of another thread or a failure. Data that a failed one wrote may seem stored
   * without being so, because the kernel does not repeat a failed sync. So a full checkpoint writes and syncs
   * everything again then, for which nobody may be reading.
   */
  #reopen(): Committer {
    const database = openDatabase(this.#options.file, this.#feed.durability)
    try {
      const checkpoint = this.#doubted && database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()!
      if (checkpoint && checkpoint['busy'] !== 0)
        throw new Error('the database is locked, or read from: its write-ahead log is checked when that is over')
      this.#verifyHead(database)
      this.#doubted = false
      return new Committer(database)
    } catch (error) {
      database.close()
      throw error
    }
  }

  /** Checks that the journal ends as the head says, and that the history is one of this thread. */
  #verifyHead(database: Database): void {
    const { file } = this.#options
    const head = readHead(database)
    const own = this.#feed.histories
    if (!own.includes(head.history))
      throw new Error(
        `${file} was written by another process: history ${head.history} of start ${head.boot} instead of ${own.join(' or ')}`
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
