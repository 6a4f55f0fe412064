// SQLite as this project opens it: the only file that imports the driver.
import { existsSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { SQLInputValue, StatementSync } from 'node:sqlite'

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

/** Of a new database; one that exists keeps its own. Nearly all that is written is appended, and a page costs two calls of the kernel per write. */
const pageBytes = 16384

/** Opens a database for its one writer; makes the file and its folder when they are missing. */
export function openDatabase(file: string, durability: Durability): Database {
  mkdirSync(dirname(file), { recursive: true })
  const database = new DatabaseSync(file, { timeout: lockWait, enableForeignKeyConstraints: true })
  try {
    database.exec(`PRAGMA page_size = ${pageBytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = ${durability === 'power' ? 'FULL' : 'NORMAL'}`)
    database.exec('PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 256')
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
  return new DatabaseSync(file, { readOnly: true, timeout: lockWait })
}

/** The exclusive ownership of a database file. */
export interface FileLock {
  release(): void
}

/**
 * Makes this process the owner of a database, by an open transaction on `<file>.lock`: the kernel ends it with the
 * process, however that ends. The lock file's `user_version` names the owner's process id.
 * @throws Error naming that process when another one, or another store of this one, owns the file
 */
export function lockDatabase(file: string): FileLock {
  mkdirSync(dirname(file), { recursive: true })
  const lock = new DatabaseSync(`${existsSync(file) ? realpathSync(file) : file}.lock`, { timeout: 100 })
  try {
    lock.exec(`BEGIN IMMEDIATE; PRAGMA user_version = ${process.pid}; COMMIT; BEGIN IMMEDIATE`)
  } catch (error) {
    const owner = (error as { errcode?: number }).errcode === 5 ? lock.prepare('PRAGMA user_version').get()?.['user_version'] : undefined
    lock.close()
    if (owner === undefined) throw error
    throw new Error(`${file} is in use by process ${owner}${owner === process.pid ? ' (this one)' : ''}: stop that process, or give this one another file`)
  }
  return { release: () => lock.close() }
}
