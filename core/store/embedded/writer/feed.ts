// What a writer thread brings into the database: the batches of a log, at a start and while the log grows.
import type { Committer } from '../database/committer.ts'
import type { Database, Durability } from '../files/sqlite.ts'
import type { Handed } from '../log/batch-log.ts'
import type { SegmentSizes } from '../segments/segment-log.ts'
import type { Keeping } from '../upkeep/upkeep.ts'
import type { Snapshot } from './snapshot.ts'

/** The options of a writer thread. */
export interface WriterOptions {
  file: string
  durability: Durability
  /** Set where the journal is kept in segments, and is the store. */
  segments: SegmentSizes | undefined
  /** Unix milliseconds of the start. */
  now: number
  /** Undefined: nothing is ever deleted. */
  keeping: Keeping | undefined
  /** The requests whose holds the process before goes on with. */
  kept: readonly string[]
  /** The log to continue, in the place of another writer of it. Undefined begins a new history, with a recovery. */
  log: Snapshot['log'] | undefined
  /** Whether the writer before failed, so that what it wrote may only seem to be stored. */
  doubted: boolean
}

/** A volume of the journal: its file with its size, and the first and last row or batch in it. */
export interface SealedVolume {
  readonly file: string
  readonly first: number
  readonly last: number
  readonly bytes: number
}

/** Brings the batches of one log into the database of a thread. */
export interface Feed {
  /** What commits of the database must survive. */
  readonly durability: Durability
  /** The histories that the database may have, once the store was started. */
  readonly histories: readonly string[]
  /** Brings a database that was opened for a start to the newest schema, and to what the feed writes. */
  prepare(database: Database): void
  /**
   * Surveys the files, brings the database up to the end of the log, begins a new history, and ends what a crash left
   * open. `open` opens the database; it is called when all files were looked at.
   * @throws Error when the files are damaged: nothing was changed then
   */
  start(open: () => Committer): Snapshot
  /** Brings what was handed over into the database. Returns the files of the log that nothing needs any more. */
  apply(committer: Committer, handed: Handed): string[]
  /** Notes that everything is in the database, as the store is closed. */
  close(committer: Committer): void
  /** Releases everything. */
  end(): void
}
