// Who owns a database: its one true path, its permissions, and the locks that the kernel ends with the process.
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
import { compareWriteAhead } from './write-ahead.ts'

/**
 * What the files of a store end with: the database itself, what SQLite keeps beside it, the commit log, and the lock.
 */
const endings = ['', '-wal', '-shm', '.log0', '.log1', '.lock'] as const

/**
 * The path of a file without symbolic links, also when the file is not there yet: what belongs to a database lies
 * beside it, by whatever name it was reached.
 */
export function canonicalPath(file: string): string {
  if (existsSync(file)) return realpathSync(file)
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink())
    return canonicalPath(resolve(dirname(file), readlinkSync(file)))
  const folder = dirname(resolve(file))
  return join(existsSync(folder) ? realpathSync(folder) : folder, basename(file))
}

/**
 * The exclusive ownership of a database, for its one gateway.
 *
 * The kernel holds two locks for it and ends both with the process, however that ends: an open transaction on
 * `<file>.lock`, which no reader of the database is in the way of, and the shared lock of a connection on the inode of
 * the database itself. The first can be removed. So a lock file that no gateway has marked where it is, by its own
 * inode, counts only when nobody has the database open, which the second lock shows.
 */
export class Ownership {
  /** Canonical. */
  readonly file: string
  readonly #lock: Database
  #held: Database | undefined

  private constructor(file: string, lock: Database) {
    this.file = file
    this.#lock = lock
  }

  /**
   * Makes this process the owner, and the files of the store readable by their user alone; makes the folder, the
   * database (empty) and the lock file when they are missing.
   * @throws Error naming that process when another one, or another store of this one, owns the file; when the file has
   * several names; when somebody has it open and its lock file was removed. `damaged`: for a repair, which takes also
   * what cannot be opened
   */
  static take(given: string, { damaged = false } = {}): Ownership {
    makeFolder(given)
    const file = canonicalPath(given)
    makeFolder(file)
    const { nlink, size } = statSync(file, { throwIfNoEntry: false }) ?? { nlink: 1, size: 0 }
    // The commit log lies beside one of them, and who comes by another would not find it.
    if (nlink > 1)
      throw new Error(
        `${given} has ${nlink} names (hard links), and what belongs to it is found by its name: remove all but one, or copy it`
      )
    const path = `${file}.lock`
    make(path)
    const lock = connect(path, { timeout: 100 })
    try {
      take(lock, given)
      const mark = Number(statSync(path, { bigint: true }).ino & 0x7fff_ffffn)
      if (
        lock.prepare('PRAGMA application_id').get()!['application_id'] !== mark &&
        size > 0 &&
        isOpenElsewhere(file, damaged)
      ) {
        throw new Error(
          `${given} is open in another process, and ${path} is not the lock file that was made with it: stop the gateway, or whatever has the database open, and start again`
        )
      }
      lock.exec(`PRAGMA user_version = ${process.pid}; PRAGMA application_id = ${mark}; COMMIT`)
      take(lock, given)
      keepPrivate(file)
      return new Ownership(file, lock)
    } catch (error) {
      lock.close()
      throw error
    }
  }

  /**
   * Takes the lock on the database itself, as the writer's connection may come and go. Once there is something in it.
   */
  hold(): void {
    this.#held = connect(this.file, { readOnly: true })
    this.#held.exec('SELECT count(*) FROM sqlite_schema')
  }

  /** Gives it up, before the writer closes: the last connection takes the write-ahead log away. */
  loosen(): void {
    this.#held?.close()
    this.#held = undefined
  }

  release(): void {
    this.loosen()
    this.#lock.close()
  }
}

/** The transaction that is the lock. The lock file's `user_version` is the process id of the owner. */
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
    throw new Error(
      `${given} is in use by process ${owner}${owner === process.pid ? ' (this one)' : ''}: stop that process, or give this one another file`,
      { cause: error }
    )
  }
}

/**
 * Whether any process has a database open, to write or to read. When none has, the write-ahead log is taken into it.
 * @throws DamagedStore when that log is not the database's: nothing is changed then. One that is `damaged` counts as
 * closed.
 */
function isOpenElsewhere(file: string, damaged: boolean): boolean {
  const fd = openSync(file, 'r')
  const mismatch = compareWriteAhead(file, fd)
  if (mismatch && damaged) return false
  if (mismatch) throw new DamagedStore(file, [mismatch])
  const open = isLocked(file)
  // Closing it would take the locks from a store that this very process has on it.
  if (!open) closeSync(fd)
  return open
}

function isLocked(file: string): boolean {
  const probe = connect(file, { timeout: 100 })
  try {
    probe.exec('PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema')
    return false
  } catch (error) {
    // What else is wrong with it is said by who opens it.
    return failedWith(error, 'busy')
  } finally {
    probe.close()
  }
}

function makeFolder(file: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
}

/** Only when it is missing: a process that closes a file gives up all the locks that it has on it. */
function make(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
}

/** SQLite gives what it makes beside a database the permissions of the database. */
function keepPrivate(file: string): void {
  make(file)
  for (const ending of endings) {
    const path = `${file}${ending}`
    const { mode } = statSync(path, { throwIfNoEntry: false }) ?? { mode: 0 }
    if ((mode & 0o077) !== 0) chmodSync(path, 0o600)
  }
}
