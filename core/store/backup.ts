// A whole copy of a store: the database of one moment, what its commit log has beyond it, and the sealed journal.
import { constants, copyFileSync, existsSync, fsyncSync, closeSync, mkdirSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Committer, readHead } from './committer.ts'
import type { Head } from './committer.ts'
import { DamagedStore } from './damage.ts'
import { canonicalPath } from './lock.ts'
import { replay } from './replay.ts'
import { checkSchema } from './schema.ts'
import { syncDirectory } from './segment.ts'
import { copyDatabase, openDatabase, openForReading, readRows } from './sqlite.ts'
import type { Database } from './sqlite.ts'
import { missingBatches, surveyBeside, surveyLog } from './survey.ts'
import type { LogSurvey } from './survey.ts'
import { volumeFolder } from './volume.ts'

/** What a copy has. */
export interface Backup {
  /** Rows of the journal, sealed ones too. */
  entries: number
  /** Batches that only the commit log had. */
  batches: number
  volumes: number
}

/**
 * Copies a store, which a gateway may be using, to a file that there is not yet, and to the folder of its name with `.journal`.
 * Until it is whole it has the ending `.part`.
 * @throws Error when the target exists, or the store is damaged or of another version
 */
export async function backUp(given: string, target: string): Promise<Backup> {
  const file = canonicalPath(given)
  const folder = volumeFolder(resolve(target))
  for (const path of [target, folder]) if (existsSync(path)) throw new Error(`${path} is there already: give another name, or move it away`)
  const part = `${resolve(target)}.part`
  const clear = (): void => {
    for (const ending of ['', '-wal', '-shm', '.log0', '.log1', '.journal']) rmSync(`${part}${ending}`, { recursive: true, force: true })
  }
  const database = openForReading(file)
  try {
    checkSchema(database, file)
    checkSound(file)
    clear()
    mkdirSync(dirname(part), { recursive: true, mode: 0o700 })
    closeSync(openSync(part, 'a', 0o600))
    const { head, log } = hold(database, file, part)
    const volumes = [...readRows(database, 'SELECT file FROM volume ORDER BY first')].map((row) => basename(String(row['file'])))
    await copyDatabase(database, part)
    database.exec('COMMIT')
    const copied = complete(part, log)
    if (volumes.length > 0) {
      copyVolumes(volumes, volumeFolder(file), volumeFolder(part))
      renameSync(volumeFolder(part), folder)
    }
    renameSync(part, target)
    syncDirectory(dirname(part))
    return { entries: copied.seq, batches: copied.batch - head.batch, volumes: volumes.length }
  } finally {
    database.close()
    clear()
  }
}

function checkSound(file: string): void {
  const { damage } = surveyBeside(file)
  if (damage.length > 0) throw new DamagedStore(file, damage)
}

/** Begins to read at one moment, and copies what the commit log has beyond it to beside the copy, before it is written over. */
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

/** Brings the copy up to the end of the log, and closes it as a store that needs none. */
function complete(part: string, log: LogSurvey): Head {
  const database = openDatabase(part, 'power')
  try {
    const committer = new Committer(database)
    replay(committer, part, log)
    committer.alter((head) => void (head.open = false))
    // One file, also after somebody has read it.
    database.exec('PRAGMA journal_mode = DELETE')
    return committer.head
  } finally {
    database.close()
  }
}

/** Volumes are never changed: they are there for as long as nobody takes them away. */
function copyVolumes(names: readonly string[], from: string, to: string): void {
  mkdirSync(to, { mode: 0o700 })
  for (const name of names) {
    copyFileSync(join(from, name), join(to, name), constants.COPYFILE_FICLONE)
    const fd = openSync(join(to, name), 'r')
    fsyncSync(fd)
    closeSync(fd)
  }
  syncDirectory(to)
}
