// Says whether a store has a commit log, without what it takes to take it over, which hardly any start needs.
import { existsSync, statSync } from 'node:fs'
import { readHead } from '../database/head.ts'
import { openForReading } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { segmentPaths } from '../log/segment.ts'
import { hasJournal } from '../segments/folder.ts'

/** Whether a store is there that has begun without a journal in segments. */
export function hasLog(file: string): boolean {
  if (!statSync(file, { throwIfNoEntry: false })?.size || hasJournal(volumeFolder(file))) return false
  try {
    const database = openForReading(file)
    try {
      return readHead(database).history !== ''
    } finally {
      database.close()
    }
  } catch {
    // After a kill it can only be read by who writes it. One whose journal had not begun has no log.
    return segmentPaths(file).some((path) => existsSync(path))
  }
}
