// SQLite as this project opens it: the only file that imports the driver.
import { statSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import type { SQLInputValue, StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'

/** One connection; calls block the thread, so only worker threads and commands hold one. */
export type Database = DatabaseSync
/** A prepared statement of one connection. */
export type Statement = StatementSync
/** What may be bound to a statement. A number is stored as an integer when it is whole; money is always a bigint. */
export type Value = SQLInputValue
/** A row as it is read, by column. */
export type Row = Record<string, Value>

/** Against what a commit is safe: `power` syncs it to the disk, `process` hands it to the kernel. */
export type Durability = 'power' | 'process'

/** Milliseconds to wait for a lock that another process holds on the database. */
const lockWait = 1000

/**
 * Of a new database; one that exists keeps its own. Nearly all that is written is appended, and a page costs two calls
 * of the kernel per write.
 */
const pageBytes = 16384

/**
 * Opens a file as it is; makes it when it is missing, unless it is only to be read. `timeout`: milliseconds to wait for
 * a lock.
 */
export function connect(
  file: string,
  { readOnly = false, timeout = lockWait }: { readOnly?: boolean; timeout?: number } = {}
): Database {
  return new DatabaseSync(file, { readOnly, timeout, enableForeignKeyConstraints: true })
}

const codes = { busy: 5, 'not a database': 26 } as const

/** Whether SQLite failed, and for this reason. */
export function failedWith(error: unknown, reason: keyof typeof codes): boolean {
  return error instanceof Error && (error as { errcode?: number }).errcode === codes[reason]
}

/**
 * Opens a database that nobody writes as it is on the disk, only to read it, and without its write-ahead log unless
 * that is wanted.
 */
export function connectAlone(file: string, withLog = false): Database {
  return withLog
    ? connect(file, { readOnly: true })
    : new DatabaseSync(`${pathToFileURL(file).href}?immutable=1`, { readOnly: true })
}

/**
 * Copies a database to a file; in a transaction, as it was when that began. `progress` is told how many of its pages
 * were copied.
 */
export async function copyDatabase(
  database: Database,
  target: string,
  progress: (pages: number, of: number) => void
): Promise<void> {
  await backup(database, target, {
    rate: 1000,
    progress: ({ totalPages, remainingPages }) => progress(totalPages - remainingPages, totalPages)
  })
}

/** Whether SQLite says that a file is no database, or a damaged one. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Error && [11, 26].includes((error as { errcode?: number }).errcode ?? 0)
}

/**
 * Opens a database for its one writer; makes the file when it is missing. `prepare` is called before there is a
 * write-ahead log: what it does to a new database is in the file itself, so that a kill leaves all of it or nothing.
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
 * Opens an existing database for reading beside its writer; never waits for it and never delays it.
 * @throws Error when there is no such file
 */
export function openForReading(file: string): Database {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new Error(`there is no file ${file}`)
  return connect(file, { readOnly: true })
}

/** Rows one by one, integers as bigint. */
export function* readRows(database: Database, query: string, ...values: Value[]): Generator<Row> {
  const statement = database.prepare(query)
  statement.setReadBigInts(true)
  yield* statement.iterate(...values) as Iterable<Row>
}
