// Takes a store with a commit log over that nobody asked to move: a small one that was closed, and once.
import { existsSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { bytesOf } from './backup.ts'
import { takeOver, tookOver } from './takeover.ts'
import { tellLog } from './tell.ts'
import { readHead } from '../database/head.ts'
import { isReadSide } from '../database/read-side.ts'
import { placeFile } from '../segments/folder.ts'
import { canonicalPath, StoreInUse } from '../files/lock.ts'
import { openForReading } from '../files/sqlite.ts'
import type { Database } from '../files/sqlite.ts'
import { attemptPath } from '../files/swap.ts'
import type { Logger } from '../../../telling/log.ts'

/** A row with all that a store has beside it, results of work too, in bytes. */
const rowBytes = 1024
/** So much more than the store must be free: the copy and its journal, and room for what comes. */
const roomier = 4

/** What the file says for what was not done. */
const asking = '`store.journal.form: segments` has the next start do it, `database` leaves it as it is'

/**
 * Takes the store over if it is small, unless that was tried before: one that fails, or takes longer than whoever
 * started the process waits, is not tried again. `rows`: how many it may have. Returns what was wrong with the attempt,
 * which has changed nothing, and undefined when there was none or the store was taken over.
 */
export async function takeOverUnasked(
  given: string,
  rows: number,
  now: number,
  log: Logger
): Promise<string | undefined> {
  const file = canonicalPath(given)
  const left = attemptPath(file)
  if (existsSync(left)) return readFileSync(left, 'utf8') || broken
  const why = reasonToWait(file, rows)
  if (why !== undefined) {
    log.info('the journal stays in the database', { store: file, why })
    return undefined
  }
  const tell = tellLog(log, { store: file })
  try {
    tookOver(log, file, await takeOver(file, now, tell, () => placeFile(left, 'power', () => {})))
    return undefined
  } catch (error) {
    // Whoever has it has not been asked either.
    if (error instanceof StoreInUse) return undefined
    const { message } = error as Error
    note(left, message)
    return message
  }
}

/** Says in the file that was made before the attempt what was wrong with it, if the disk takes that. */
function note(left: string, message: string): void {
  try {
    writeFileSync(left, message, { mode: 0o600 })
  } catch {
    // The file that is there, or the next attempt, says so.
  }
}

/** What is said of an attempt that was ended before it could say anything. */
const broken = 'it was ended while it was at work'

/** Why a store is not taken over by this start; undefined when it is. */
function reasonToWait(file: string, rows: number): string | undefined {
  try {
    const database = openForReading(file)
    try {
      const { open, seq, requests } = readHead(database)
      const bytes = bytesOf(file)
      if (isReadSide(database)) return 'it is made of a journal that is missing'
      if (isOfBook(database)) return 'it was made of a book in PostgreSQL'
      if (open) return 'its last process was killed: a start after an orderly end moves it into segments'
      if (seq + requests > rows || bytes > rows * rowBytes)
        return `it is large, and clients would wait for it to be moved into segments: ${asking}`
      const { bavail, bsize } = statfsSync(dirname(file))
      if (bavail * bsize < bytes * roomier) return 'the disk has no room for a copy'
      return undefined
    } finally {
      database.close()
    }
  } catch (error) {
    return (error as Error).message
  }
}

/** Whether a store was made of a book, for which a journal in segments has no room: an earlier schema knows none. */
function isOfBook(database: Database): boolean {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'journal_origin'").get()
  return table !== undefined && database.prepare('SELECT 1 FROM journal_origin').get() !== undefined
}
