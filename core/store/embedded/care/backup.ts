// Makes a complete copy of a store: the database at one moment, the batches that only its log has, the sealed journal
// or the journal in segments, and the results of work.
import { randomBytes } from 'node:crypto'
import {
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Committer } from '../database/committer.ts'
import { identityOf, readHead } from '../database/head.ts'
import type { Head } from '../database/head.ts'
import { DamagedStore } from '../files/damage.ts'
import { canonicalPath } from '../files/lock.ts'
import { wholeness } from './verify/invariants.ts'
import { completeJournal, copyJournal } from './journal-copy.ts'
import { replay } from '../recovery/replay.ts'
import { checkSchema, migrate } from '../database/migration.ts'
import { resultFile, resultsFolder } from '../files/results.ts'
import { syncDirectory } from '../files/directory.ts'
import { historyBytes, segmentPaths } from '../log/segment.ts'
import { copyDatabase, openDatabase, openForReading, readRows } from '../files/sqlite.ts'
import type { Database } from '../files/sqlite.ts'
import { missingBatches, surveyBeside, surveyLog } from '../recovery/survey.ts'
import type { LogSurvey } from '../recovery/survey.ts'
import type { Tell } from './tell.ts'
import { diagnose } from '../files/troubles.ts'
import { toldOf } from './verify/checking.ts'
import { verifyInThreads } from './verify/verify.ts'
import { volumeFolder } from '../journal/volume.ts'
import { hasJournal, listNumbered } from '../segments/folder.ts'
import { nameOf } from '../book/open-work.ts'

/** What a copy contains. */
export interface Backup {
  /** The number of journal rows, including the sealed ones. */
  entries: number
  /** The number of batches that were only in the commit log. */
  batches: number
  volumes: number
  /** The number of files with results of work, such as pictures. */
  results: number
  /** The number of rows that break an invariant although they are what was written; 0 when nothing was checked. */
  breaches: number
  /** The id that all copies of one store share, and the id of this copy alone; both in hexadecimal. */
  store: string
  epoch: string
}

/** How a copy is made. */
export interface BackupOptions {
  tell?: Tell
  /** Checks the copy against the invariants before it gets its name. */
  verified?: boolean
  /** Pauses for as long as it works, so that others get at the disk meanwhile. */
  paced?: boolean
}

/**
 * Copies a store to a new file, and to new folders of the same name with `.journal` and `.results`. A gateway may be
 * using the store. The copy of a store of an earlier version is one of this version. Until the copy is complete its
 * names end in `.part`. Results that are deleted during the copy are left out.
 * @throws Error when the target exists, when the store is damaged or of a newer version, and when the copy is not whole
 */
export async function backUp(
  given: string,
  target: string,
  { tell = () => {}, verified = false, paced = false }: BackupOptions = {}
): Promise<Backup> {
  const file = canonicalPath(given)
  const folders = [volumeFolder, resultsFolder].map((of) => ({
    from: of(file),
    part: of(`${resolve(target)}.part`),
    to: of(resolve(target))
  }))
  const [journal, results] = folders as [Folder, Folder]
  for (const path of [target, journal.to, results.to])
    if (existsSync(path)) throw new Error(`${path} is there already: give another name, or move it away`)
  const part = `${resolve(target)}.part`
  const database = openForReading(file)
  try {
    checkSchema(database, file, { older: true })
    checkSound(file)
    removeParts(target)
    mkdirSync(dirname(part), { recursive: true, mode: 0o700 })
    checkRoom(file, dirname(part))
    closeSync(openSync(part, 'a', 0o600))
    const segments = hasJournal(journal.from)
    const log = segments ? void begin(database) : hold(database, file, part)
    const rows = [...readRows(database, 'SELECT file FROM volume ORDER BY first')].map((row) =>
      basename(String(row['file']))
    )
    await copyDatabase(database, part, (done, of) => tell('copying the database', { done, of, unit: 'bytes' }), paced)
    database.exec('COMMIT')
    if (rows.length > 0) copyFiles(rows, journal, tell)
    const volumes = rows.length + (segments ? copySegments(journal, file, tell) : 0)
    tell('adding what only the commit log has')
    const { copied, batches } = complete(part, (committer) =>
      log ? completeLog(committer, log) : completeJournal(journal.part, part, committer)
    )
    const kept = resultsIn(part).filter((name) => existsSync(join(results.from, name)))
    const taken = kept.length > 0 ? copyFiles(kept, results, tell, true) : 0
    const breaches = verified ? await check(part, tell) : 0
    for (const { part: made, to } of folders) if (existsSync(made)) renameSync(made, to)
    renameSync(part, target)
    syncDirectory(dirname(part))
    const { seq: entries, history: epoch } = copied
    return {
      entries,
      batches,
      volumes,
      results: taken,
      breaches,
      store: identityOf(database),
      epoch
    }
  } catch (error) {
    throw explained(error, target)
  } finally {
    database.close()
    removeParts(target)
  }
}

/** Says what to do about a disk that took no copy. Other errors stay as they are. */
function explained(error: unknown, target: string): unknown {
  const { message } = error as Error
  const { cause, ofDisk } = diagnose(message)
  if (!ofDisk || message.startsWith(tooLarge)) return error
  return new Error(
    `${target} cannot be written, as ${cause} (${message}): nothing of it is left; make room there, or take another folder`,
    { cause: error }
  )
}

/** The bytes that a store takes: its database, its log, its volumes and its results. */
export function bytesOf(file: string): number {
  const size = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const folders = [volumeFolder(file), resultsFolder(file)].filter((path) => existsSync(path))
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
  return [file, `${file}-wal`, ...segmentPaths(file), ...files].reduce((sum, path) => sum + size(path), 0)
}

/** Removes what a copy to `target` that was broken off has left. */
export function removeParts(target: string): void {
  for (const ending of ['', '-journal', '-wal', '-shm', '.log0', '.log1', '.journal', '.results'])
    rmSync(`${resolve(target)}.part${ending}`, { recursive: true, force: true })
}

/** Bytes that stay free on the disk that a copy is written to, so that a store on the same disk goes on. */
const spared = 64 * 1024 * 1024
const tooLarge = 'the copy would fill the disk'

function checkRoom(file: string, folder: string): void {
  const needed = bytesOf(file) + spared
  const { bavail, bsize } = statfsSync(folder)
  if (bavail * bsize < needed)
    throw new Error(
      `${tooLarge}: ${folder} has ${inMebibytes(bavail * bsize)} left, and ${inMebibytes(needed)} are needed: make room there, or take another folder`
    )
}

function inMebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1024 / 1024).toLocaleString('en-US')} MiB`
}

/**
 * Checks a copy. Returns how many rows break an invariant although they are what was written.
 * @throws Error when something in the copy is not what was written
 */
async function check(part: string, tell: Tell): Promise<number> {
  const breaches = await verifyInThreads(part, toldOf(tell))
  const [first] = breaches.filter(({ invariant }) => wholeness.has(invariant))
  if (first) throw new Error(`the copy is not whole: ${first.invariant} ${first.row} ${first.message}`)
  return breaches.length
}

function checkSound(file: string): void {
  const { damage } = surveyBeside(file)
  if (damage.length > 0) throw DamagedStore.of(file, damage)
}

/** Begins a read transaction on the database. */
function begin(database: Database): Head {
  database.exec('BEGIN')
  return readHead(database)
}

/** Begins a read transaction on the database, and copies the commit log before the gateway overwrites it. */
function hold(database: Database, file: string, part: string): LogSurvey {
  for (;;) {
    const head = begin(database)
    const { reach } = surveyLog(file, head.history, head.batch)
    for (const ending of ['.log0', '.log1']) copyBytes(`${file}${ending}`, `${part}${ending}`)
    const log = { ...surveyLog(part, head.history, head.batch), reach: Math.max(reach, head.batch) }
    // The gateway may have overwritten batches that it applied between the two reads. Then the copy of the log has a
    // gap, and is made again from a newer moment.
    if (missingBatches(log, head.batch).length === 0) return log
    database.exec('ROLLBACK')
    checkSound(file)
  }
}

/** Copies the bytes that a file has when it is opened; does nothing when there is no such file. */
function copyBytes(from: string, to: string): void {
  if (!existsSync(from)) return
  const source = openSync(from, 'r')
  const target = openSync(to, 'w', 0o600)
  try {
    const bytes = Buffer.allocUnsafe(1024 * 1024)
    const size = statSync(from).size
    for (let at = 0, read = 1; read > 0 && at < size; at += read) {
      read = readSync(source, bytes, 0, Math.min(bytes.length, size - at), at)
      writeSync(target, bytes, 0, read)
    }
  } finally {
    closeSync(source)
    closeSync(target)
  }
}

/**
 * Brings the schema of the copied database up to date, and has `bring` add what it lacks. The copy gets a history of
 * its own, because later batches of the original store are not part of it. Returns its head, and how many batches it
 * lacked.
 */
function complete(part: string, bring: (committer: Committer) => number): { copied: Head; batches: number } {
  const database = openDatabase(part, 'power', (opened) => migrate(opened, part))
  try {
    const committer = new Committer(database)
    const batches = bring(committer)
    // With this journal mode the copy stays one file even after somebody reads it.
    database.exec('PRAGMA journal_mode = DELETE')
    return { copied: committer.head, batches }
  } finally {
    database.close()
  }
}

/** Applies the copied log to the database of a copy, and marks it as closed, so that it needs no log. */
function completeLog(committer: Committer, log: LogSurvey): number {
  const { batch } = committer.head
  replay(committer, log)
  const history = randomBytes(historyBytes).toString('hex')
  committer.alter((head) => Object.assign(head, { open: false, history }))
  return committer.head.batch - batch
}

/** Copies the journal in segments. Returns how many volumes it has. */
function copySegments({ from, part }: Folder, file: string, tell: Tell): number {
  let copied = 0
  return copyJournal(from, part, file, (path, to) => {
    const there = copyWhole(path, to)
    if (there) tell('copying the journal', { done: ++copied, of: listNumbered(from).length, unit: 'files' })
    return there
  })
}

/**
 * The names of the files that results of ended work may have. A result is written before its work is recorded as ended,
 * so none is missed.
 */
function resultsIn(file: string): string[] {
  const database = openForReading(file)
  try {
    return [...readRows(database, 'SELECT tenant, project, id FROM work WHERE open = 0')].map((row) => {
      const { tenant, project, id } = row as { tenant: string; project: string; id: string }
      return resultFile(nameOf({ tenant, project }, id))
    })
  } finally {
    database.close()
  }
}

/** A folder of files: the one to copy from, the one that the copies are written to, and its final name. */
interface Folder {
  from: string
  part: string
  to: string
}

/**
 * Copies files, which never change once they are written; returns how many it copied. `mayGo` allows files to be
 * deleted meanwhile.
 */
function copyFiles(names: readonly string[], { from, part }: Folder, tell: Tell, mayGo = false): number {
  let copied = 0
  mkdirSync(part, { mode: 0o700 })
  for (const name of names) {
    if (!copyWhole(join(from, name), join(part, name), mayGo)) continue
    tell(`copying ${basename(from)}`, { done: ++copied, of: names.length, unit: 'files' })
  }
  syncDirectory(part)
  return copied
}

/** Copies a file, and syncs the copy. `mayGo`: returns false when the file is gone. */
function copyWhole(from: string, to: string, mayGo = true): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_FICLONE)
  } catch (error) {
    if (mayGo && (error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
  const fd = openSync(to, 'r')
  fsyncSync(fd)
  closeSync(fd)
  return true
}
