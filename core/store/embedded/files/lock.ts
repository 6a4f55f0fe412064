// The ownership of a database: its canonical path, its permissions, and locks that the kernel releases when the process
// ends.
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { DamagedStore } from './damage.ts'
import { connect, failedWith } from './sqlite.ts'
import type { Database } from './sqlite.ts'
import { dropStaged, endSwap } from './swap.ts'
import type { Ended } from './swap.ts'
import { compareWriteAhead } from './write-ahead.ts'

/**
 * The endings of the files of a store: the database itself, what SQLite keeps beside it, the commit log, and the lock.
 */
const endings = ['', '-wal', '-shm', '.log0', '.log1', '.lock'] as const

/**
 * The path of a file without symbolic links, even when the file does not exist yet. The other files of a store lie
 * beside the database, whatever link it was reached by.
 */
export function canonicalPath(file: string): string {
  if (existsSync(file)) return realpathSync(file)
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink())
    return canonicalPath(resolve(dirname(file), readlinkSync(file)))
  const folder = dirname(resolve(file))
  return join(existsSync(folder) ? realpathSync(folder) : folder, basename(file))
}

/** Thrown when another process has the store. */
export class StoreInUse extends Error {
  override readonly name = 'StoreInUse'
}

/**
 * The exclusive ownership of a database by one gateway.
 *
 * The kernel holds two locks for it and releases both when the process ends, however it ends: an open transaction on
 * `<file>.lock`, which readers of the database do not block, and a shared lock on the database itself. The lock file
 * can be deleted and made anew. So each gateway marks the lock file with the file's inode. A lock file without that
 * mark is taken only when no process has the database open, which the second lock shows.
 */
export class Ownership {
  /** The canonical path of the database. */
  readonly file: string
  /** How a restore ended that an earlier owner had begun. */
  readonly ended: Ended | undefined
  readonly #lock: Database
  #held: Database | undefined

  private constructor(file: string, lock: Database, ended: Ended | undefined) {
    this.file = file
    this.#lock = lock
    this.ended = ended
  }

  /**
   * Makes this process the owner, and the files of the store private to their user. Makes the folder, an empty database
   * and the lock file when they are missing, and ends a restore that was broken off. A repair and a restore pass
   * `damaged`, to take a store that cannot be opened too.
   * @throws Error when something else than a file is there; when another process, or another store of this one, owns
   * the file (the error names the process); when the file has several hard links; when a process has it open and its
   * lock file was removed
   */
  static take(given: string, { damaged = false } = {}): Ownership {
    makeFolder(given)
    const file = canonicalPath(given)
    makeFolder(file)
    const found = statSync(file, { throwIfNoEntry: false })
    if (found && !found.isFile())
      throw new Error(
        found.isDirectory()
          ? `${given} is a folder, and the store is a file: name a file in it, such as ${join(given, 'sluice.db')}`
          : `${given} is no file but a device, a pipe or a socket: name another file, which is made when it is not there`
      )
    const nlink = found?.nlink ?? 1
    // The commit log lies beside one of the names. A start by another name would not find it.
    if (nlink > 1)
      throw new Error(
        `${given} has ${nlink} names (hard links), and what belongs to it is found by its name: remove all but one, or copy it`
      )
    const path = `${file}.lock`
    make(path)
    const lock = connect(path, { timeout: 100 })
    try {
      take(lock, given)
      // Nobody can have opened a store that is half moved.
      const completed = endSwap(file)
      const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 }
      const mark = Number(statSync(path, { bigint: true }).ino & 0x7fff_ffffn)
      if (
        lock.prepare('PRAGMA application_id').get()!['application_id'] !== mark &&
        size > 0 &&
        isOpenElsewhere(file, damaged)
      ) {
        throw new StoreInUse(
          `${given} is open in another process, and ${path} is not the lock file that was made with it: stop the gateway, or whatever has the database open, and start again`
        )
      }
      lock.exec(`PRAGMA user_version = ${process.pid}; PRAGMA application_id = ${mark}; COMMIT`)
      take(lock, given)
      keepPrivate(file)
      return new Ownership(file, lock, completed ?? dropStaged(file))
    } catch (error) {
      lock.close()
      throw error
    }
  }

  /**
   * Takes the shared lock on the database itself, which lasts while connections of the writer come and go. The database
   * must not be empty.
   */
  hold(): void {
    this.#held = connect(this.file, { readOnly: true })
    this.#held.exec('SELECT count(*) FROM sqlite_schema')
  }

  /**
   * Releases the shared lock before the writer closes, so that the writer's connection is the last one and SQLite
   * removes the write-ahead log.
   */
  loosen(): void {
    this.#held?.close()
    this.#held = undefined
  }

  release(): void {
    this.loosen()
    this.#lock.close()
  }
}

/** Begins the transaction that is the lock. The `user_version` of the lock file is the owner's process id. */
function take(lock: Database, given: string): void {
  try {
    lock.exec('BEGIN IMMEDIATE')
  } catch (error) {
    if (failedWith(error, 'not a database'))
      throw new Error(`${given}.lock is damaged: remove it; whether a gateway runs is also seen without it`, {
        cause: error
      })
    if (!failedWith(error, 'busy')) throw error
    const owner = lock.prepare('PRAGMA user_version').get()?.['user_version']
    throw new StoreInUse(
      `${given} is in use by process ${owner}${owner === process.pid ? ' (this one)' : ''}: stop that process, or give this one another file`,
      { cause: error }
    )
  }
}

/**
 * Whether any process has a database open, to write or to read. When none has, SQLite moves the write-ahead log into
 * the database. With `damaged`, a database whose log does not match counts as closed.
 * @throws DamagedStore when the log does not belong to the database; nothing is changed then
 */
function isOpenElsewhere(file: string, damaged: boolean): boolean {
  const fd = openSync(file, 'r')
  const mismatch = compareWriteAhead(file, fd)
  if (mismatch && damaged) return false
  if (mismatch) throw DamagedStore.of(file, [mismatch])
  const open = isLocked(file)
  // When a process closes a file, it loses all its locks on that file, also those of its other connections.
  if (!open) closeSync(fd)
  return open
}

function isLocked(file: string): boolean {
  const probe = connect(file, { timeout: 100 })
  try {
    probe.exec('PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema')
    return false
  } catch (error) {
    // Other errors are reported when the database is opened.
    return failedWith(error, 'busy')
  } finally {
    probe.close()
  }
}

function makeFolder(file: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
}

/** Makes the file only when it is missing: when a process closes a file, it loses all its locks on that file. */
function make(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
}

/**
 * Makes the files of a store private to their user. SQLite gives the files that it makes later the permissions of the
 * database.
 */
function keepPrivate(file: string): void {
  make(file)
  for (const ending of endings) {
    const path = `${file}${ending}`
    const { mode } = statSync(path, { throwIfNoEntry: false }) ?? { mode: 0 }
    if ((mode & 0o077) !== 0) chmodSync(path, 0o600)
  }
}
