// Opens SQLite databases. This is the only file that imports the driver.
import { statSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import type { SQLInputValue, StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'

/** One connection. Its calls block the thread, so only worker threads and commands have one. */
export type Database = DatabaseSync
/** A prepared statement of one connection. */
export type Statement = StatementSync
/** A value that can be bound to a statement. A whole number is stored as an integer; money is always a bigint. */
export type Value = SQLInputValue
/** A row by column names. */
export type Row = Record<string, Value>

/**
 * What a commit survives: with `power` it is synced to the disk and survives a loss of power; with `process` it is
 * handed to the kernel and survives the end of the process.
 */
export type Durability = 'power' | 'process'

/** Milliseconds to wait for a lock that another process holds on the database. */
const lockWait = 1000

/**
 * The page size of a new database in bytes; an existing one keeps its own. It is large because nearly all writes
 * append, and each page costs two system calls.
 */
const pageBytes = 16384

/**
 * Opens a file without further settings; makes it when it is missing, unless `readOnly`. `timeout`: how many
 * milliseconds to wait for a lock.
 */
export function connect(
  file: string,
  { readOnly = false, timeout = lockWait }: { readOnly?: boolean; timeout?: number } = {}
): Database {
  return new DatabaseSync(file, { readOnly, timeout, enableForeignKeyConstraints: true })
}

const codes = { busy: 5, 'not a database': 26 } as const

/** Whether the error is SQLite's, and has this reason. */
export function failedWith(error: unknown, reason: keyof typeof codes): boolean {
  return error instanceof Error && (error as { errcode?: number }).errcode === codes[reason]
}

/** Opens a database for reading while nobody writes it. Its write-ahead log is ignored unless `withLog`. */
export function connectAlone(file: string, withLog = false): Database {
  return withLog
    ? connect(file, { readOnly: true })
    : new DatabaseSync(`${pathToFileURL(file).href}?immutable=1`, { readOnly: true })
}

/** The pages that are copied at a time: 16 MiB, or 1 MiB where others are to get at the disk in between. */
const copied = { fast: 1024, paced: 64 } as const
/** The longest pause between two copies, in milliseconds. */
const longestPause = 100

/**
 * Copies a database to a file; within a transaction, in the state when that began. `progress` is called with the number
 * of bytes copied so far, and of all bytes. With `paced` the thread pauses after each part for as long as it took.
 */
export async function copyDatabase(
  database: Database,
  target: string,
  progress: (bytes: number, of: number) => void,
  paced = false
): Promise<void> {
  const size = Number(database.prepare('PRAGMA page_size').get()!['page_size'])
  const never = new Int32Array(new SharedArrayBuffer(4))
  let begun = performance.now()
  await backup(database, target, {
    rate: paced ? copied.paced : copied.fast,
    progress({ totalPages, remainingPages }) {
      progress((totalPages - remainingPages) * size, totalPages * size)
      if (paced) Atomics.wait(never, 0, 0, Math.min(longestPause, performance.now() - begun))
      begun = performance.now()
    }
  })
}

/** Whether SQLite reports that a file is not a database, or is damaged. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Error && [11, 26].includes((error as { errcode?: number }).errcode ?? 0)
}

/**
 * Opens a database for its one writer; makes the file when it is missing. `prepare` is called before there is a
 * write-ahead log, so that its changes to a new database go to the file itself: if the process is killed, either all or
 * none of them are there.
 */
export function openDatabase(file: string, durability: Durability, prepare?: (database: Database) => void): Database {
  const database = connect(file)
  try {
    database.exec(`PRAGMA page_size = ${pageBytes}; PRAGMA synchronous = ${durability === 'power' ? 'FULL' : 'NORMAL'}`)
    prepare?.(database)
    database.exec('PRAGMA journal_mode = WAL; PRAGMA temp_store = MEMORY')
    database.exec('PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 256')
  } catch (error) {
    database.close()
    throw error
  }
  return database
}

/**
 * Opens an existing database for reading while its writer may be active; neither waits for the other.
 * @throws Error when there is no such file
 */
export function openForReading(file: string): Database {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new Error(`there is no file ${file}`)
  return connect(file, { readOnly: true })
}

/** Yields rows one by one, with integers as bigint. */
export function* readRows(database: Database, query: string, ...values: Value[]): Generator<Row> {
  const statement = database.prepare(query)
  statement.setReadBigInts(true)
  yield* statement.iterate(...values) as Iterable<Row>
}
