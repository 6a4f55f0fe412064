// The folder of regular backups: which of its files are of a store, a new one, and the removal of the oldest.
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { backUp, bytesOf, removeParts } from './backup.ts'
import { enterFolder } from './backup-place.ts'
import { identityOf, readHead } from '../database/head.ts'
import { LedgerFile } from './ledger-file.ts'
import { canonicalPath } from '../files/lock.ts'
import { resultsFolder } from '../files/results.ts'
import { openForReading } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'

/** A backup in the folder. */
export interface KeptBackup {
  path: string
  /** When it was made by its name, in Unix milliseconds. */
  time: number
  /** How many transactions the store had had, by which backups are sorted: the clock may have been wrong. */
  writes: number
}

/** What became of a new backup. */
export interface RegularBackup extends KeptBackup {
  entries: number
  bytes: number
  /** The rows that break an invariant although they are what was written. */
  breaches: number
  /** The names of the older backups that were removed. */
  removed: string[]
}

/** An unfinished backup that nobody has written to for so many milliseconds was broken off. */
const abandoned = 3_600_000

/**
 * The backups of a store in a folder, newest first: those that have its identity in their names, and nothing that it
 * lacks. So a gateway that was started from a copy of this store, and keeps its backups in the same folder, loses none.
 */
export function backupsIn(folder: string, given: string): KeptBackup[] {
  const file = canonicalPath(given)
  const pattern = namePattern(file, identityIn(file))
  if (!existsSync(folder)) return []
  const ledger = new LedgerFile(file)
  try {
    return readdirSync(folder)
      .flatMap((name) => {
        const [, stamp] = pattern.exec(name) ?? []
        const path = join(folder, name)
        const writes = stamp === undefined ? undefined : writesIn(ledger, path)
        return writes === undefined ? [] : [{ path, time: timeOf(stamp!), writes }]
      })
      .sort((a, b) => b.writes - a.writes)
  } finally {
    ledger.close()
  }
}

/**
 * Makes a backup, checks it, and removes the oldest ones beyond `keep`. `now` is in Unix milliseconds. It leaves the
 * disk to others for half of the time.
 * @throws Error when the folder is not the one that it was, or when it cannot be made or is not whole; then nothing was
 * removed
 */
export async function makeBackup(folder: string, given: string, keep: number, now: number): Promise<RegularBackup> {
  const file = canonicalPath(given)
  enterFolder(folder, file)
  const identity = identityIn(file)
  clear(folder, namePattern(file, identity))
  let time = now
  while (existsSync(join(folder, nameOf(file, identity, time)))) time++
  const path = join(folder, nameOf(file, identity, time))
  const { entries, breaches } = await backUp(file, path, { verified: true, paced: true })
  const bytes = bytesOf(path)
  const kept = backupsIn(folder, file)
  const others = kept.filter((one) => one.path !== path)
  const removed = others.slice(Math.max(0, keep - 1))
  for (const one of removed) remove(one.path)
  const { writes = 0 } = kept.find((one) => one.path === path) ?? {}
  return { path, time, writes, entries, bytes, breaches, removed: removed.map((one) => basename(one.path)) }
}

function identityIn(file: string): string {
  const database = openForReading(file)
  try {
    return identityOf(database)
  } finally {
    database.close()
  }
}

/** Such as `sluice-1f9a03bc-20261123T060000000Z.db`, in UTC. */
function nameOf(file: string, identity: string, time: number): string {
  return `${stemOf(file)}-${identity.slice(0, 8)}-${new Date(time).toISOString().replaceAll(/[-:.]/g, '')}.db`
}

function namePattern(file: string, identity: string): RegExp {
  const stem = `${stemOf(file)}-${identity.slice(0, 8)}-`.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
  return new RegExp(String.raw`^${stem}(\d{8}T\d{9}Z)\.db$`)
}

function stemOf(file: string): string {
  return basename(file, extname(file))
}

function timeOf(stamp: string): number {
  return Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/, '$1-$2-$3T$4:$5:$6.$7Z'))
}

/**
 * How many transactions a backup has, when its journal is the beginning of this one. Undefined for others, and for what
 * cannot be read.
 */
function writesIn(ledger: LedgerFile, path: string): number | undefined {
  try {
    const database = openForReading(path)
    try {
      const { seq, hash, writes } = readHead(database)
      return seq === 0 || ledger.hashAt(seq) === hash ? writes : undefined
    } finally {
      database.close()
    }
  } catch {
    return undefined
  }
}

/** Removes the folders first: while the database is there, the backup is found and removed the next time. */
function remove(path: string): void {
  for (const part of [volumeFolder(path), resultsFolder(path), path]) rmSync(part, { recursive: true, force: true })
}

/** Removes what backups that were broken off have left. */
function clear(folder: string, pattern: RegExp): void {
  const names = new Set(readdirSync(folder).map((name) => name.replace(/\.part.*$/, '')))
  for (const name of names) {
    const part = join(folder, `${name}.part`)
    const found = pattern.test(name) ? statSync(part, { throwIfNoEntry: false }) : undefined
    if (found && Date.now() - found.mtimeMs > abandoned) removeParts(join(folder, name))
  }
}
