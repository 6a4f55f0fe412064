// A whole copy of a store: the database of one moment, what its commit log has beyond it, the sealed journal, and
// results of work.
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

/** What a copy has. */
export interface Backup {
  /** Rows of the journal, sealed ones too. */
  entries: number
  /** Batches that only the commit log had. */
  batches: number
  volumes: number
  /** Files of what came of work, as pictures. */
  results: number
  /** What all copies of one store have in common, and what this one has alone: both in hexadecimal. */
  store: string
  epoch: string
}

/**
 * Copies a store, which a gateway may be using, to a file that there is not yet, and to the folders of its name with
 * `.journal` and `.results`. Until it is whole it has the ending `.part`. Results that are forgotten meanwhile are not
 * in it.
 * `progress` is told what is being done.
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

/**
 * Begins to read at one moment, and copies what the commit log has beyond it to beside the copy, before it is written
 * over.
 */
function hold(database: Database, file: string, part: string): { head: Head; log: LogSurvey } {
  for (;;) {
    database.exec('BEGIN')
    const head = readHead(database)
    const { reach } = surveyLog(file, head.history, head.batch)
    for (const ending of ['.log0', '.log1']) copyBytes(`${file}${ending}`, `${part}${ending}`)
    const log = { ...surveyLog(part, head.history, head.batch), reach: Math.max(reach, head.batch) }
    // What went into the database meanwhile may have been written over before it was copied.
    if (missingBatches(log, head.batch).length === 0) return { head, log }
    database.exec('ROLLBACK')
    checkSound(file)
  }
}

/** As far as it is when it is opened; a file that is not there is left out. */
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
 * Brings the copy up to the end of the log, and closes it as a store that needs none. It has left the history that it
 * is a copy of: what that has come to since is not its own.
 */
function complete(part: string, log: LogSurvey): Head {
  const database = openDatabase(part, 'power')
  try {
    const committer = new Committer(database)
    replay(committer, log)
    const history = randomBytes(historyBytes).toString('hex')
    committer.alter((head) => Object.assign(head, { open: false, history }))
    // One file, also after somebody has read it.
    database.exec('PRAGMA journal_mode = DELETE')
    return committer.head
  } finally {
    database.close()
  }
}

/**
 * Files that results of work may have, of all that has ended by what a database says. A result is there before its work
 * is said to have ended.
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

/** Where files are, are put, and belong in the end. */
interface Folder {
  from: string
  part: string
  to: string
}

/** Such files are never changed. `mayGo`: somebody may take one away meanwhile. Returns how many were copied. */
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
