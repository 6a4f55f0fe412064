// Makes a complete copy of a store: the database at one moment, the batches that only its commit log has, the sealed
// journal, and the results of work.
import { randomBytes } from 'node:crypto'
import {
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  closeSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Committer } from './committer.ts'
import { identityOf, readHead } from './head.ts'
import type { Head } from './head.ts'
import { DamagedStore } from './damage.ts'
import { canonicalPath } from './lock.ts'
import { replay } from './replay.ts'
import { checkSchema } from './schema.ts'
import { resultFile, resultsFolder } from './results.ts'
import { historyBytes, syncDirectory } from './segment.ts'
import { copyDatabase, openDatabase, openForReading, readRows } from './sqlite.ts'
import type { Database } from './sqlite.ts'
import { missingBatches, surveyBeside, surveyLog } from './survey.ts'
import type { LogSurvey } from './survey.ts'
import { volumeFolder } from './volume.ts'
import { nameOf } from './work-list.ts'

/** What a copy contains. */
export interface Backup {
  /** The number of journal rows, including the sealed ones. */
  entries: number
  /** The number of batches that were only in the commit log. */
  batches: number
  volumes: number
  /** The number of files with results of work, such as pictures. */
  results: number
  /** The id that all copies of one store share, and the id of this copy alone; both in hexadecimal. */
  store: string
  epoch: string
}

/**
 * Copies a store to a new file, and to new folders of the same name with `.journal` and `.results`. A gateway may be
 * using the store. Until the copy is complete its names end in `.part`. Results that are deleted during the copy are
 * left out. `progress` is called with a phrase at each step and as pages are copied.
 * @throws Error when the target exists, or the store is damaged or of another version
 */
export async function backUp(
  given: string,
  target: string,
  progress: (words: string) => void = () => {}
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
  const clear = (): void => {
    for (const ending of ['', '-wal', '-shm', '.log0', '.log1', '.journal', '.results'])
      rmSync(`${part}${ending}`, { recursive: true, force: true })
  }
  const database = openForReading(file)
  try {
    checkSchema(database, file)
    checkSound(file)
    clear()
    mkdirSync(dirname(part), { recursive: true, mode: 0o700 })
    closeSync(openSync(part, 'a', 0o600))
    const { head, log } = hold(database, file, part)
    const volumes = [...readRows(database, 'SELECT file FROM volume ORDER BY first')].map((row) =>
      basename(String(row['file']))
    )
    await copyDatabase(database, part, (pages, of) => progress(`copying page ${pages} of ${of} of the database`))
    database.exec('COMMIT')
    progress('adding what only the commit log has')
    const copied = complete(part, log)
    progress('copying sealed volumes and results')
    if (volumes.length > 0) copyFiles(volumes, journal)
    const kept = resultsIn(part).filter((name) => existsSync(join(results.from, name)))
    const taken = kept.length > 0 ? copyFiles(kept, results, true) : 0
    for (const { part: made, to } of folders) if (existsSync(made)) renameSync(made, to)
    renameSync(part, target)
    syncDirectory(dirname(part))
    const { seq: entries, batch, history: epoch } = copied
    return {
      entries,
      batches: batch - head.batch,
      volumes: volumes.length,
      results: taken,
      store: identityOf(database),
      epoch
    }
  } finally {
    database.close()
    clear()
  }
}

function checkSound(file: string): void {
  const { damage } = surveyBeside(file)
  if (damage.length > 0) throw new DamagedStore(file, damage)
}

/** Begins a read transaction on the database, and copies the commit log before the gateway overwrites it. */
function hold(database: Database, file: string, part: string): { head: Head; log: LogSurvey } {
  for (;;) {
    database.exec('BEGIN')
    const head = readHead(database)
    const { reach } = surveyLog(file, head.history, head.batch)
    for (const ending of ['.log0', '.log1']) copyBytes(`${file}${ending}`, `${part}${ending}`)
    const log = { ...surveyLog(part, head.history, head.batch), reach: Math.max(reach, head.batch) }
    // The gateway may have overwritten batches that it applied between the two reads. Then the copy of the log has a
    // gap, and is made again from a newer moment.
    if (missingBatches(log, head.batch).length === 0) return { head, log }
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
 * Applies the copied log to the copied database, and marks it as closed, so that it needs no log. It gets a history of
 * its own, because later batches of the original store are not part of it.
 */
function complete(part: string, log: LogSurvey): Head {
  const database = openDatabase(part, 'power')
  try {
    const committer = new Committer(database)
    replay(committer, log)
    const history = randomBytes(historyBytes).toString('hex')
    committer.alter((head) => Object.assign(head, { open: false, history }))
    // With this journal mode the copy stays one file even after somebody reads it.
    database.exec('PRAGMA journal_mode = DELETE')
    return committer.head
  } finally {
    database.close()
  }
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
function copyFiles(names: readonly string[], { from, part }: Folder, mayGo = false): number {
  let copied = 0
  mkdirSync(part, { mode: 0o700 })
  for (const name of names) {
    const target = join(part, name)
    try {
      copyFileSync(join(from, name), target, constants.COPYFILE_FICLONE)
    } catch (error) {
      if (mayGo && (error as NodeJS.ErrnoException).code === 'ENOENT') continue
      throw error
    }
    const fd = openSync(target, 'r')
    fsyncSync(fd)
    closeSync(fd)
    copied++
  }
  syncDirectory(part)
  return copied
}
