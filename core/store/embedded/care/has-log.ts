// Says whether a store has a commit log, without what it takes to take it over, which hardly any start needs.
import { statSync } from 'node:fs'
import { readHead } from '../database/head.ts'
import { isUnreadable, openForReading } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { segmentPaths } from '../log/segment.ts'
import { hasJournal } from '../segments/folder.ts'

/** Whether a store is there that has begun without a journal in segments, also where it is not whole or sound. */
export function hasLog(file: string): boolean {
  if (hasJournal(volumeFolder(file))) return false
  const logged = segmentPaths(file).some((path) => sizeOf(path) > 0)
  if (sizeOf(file) === 0) return logged
  try {
    const database = openForReading(file)
    try {
      const { history, seq } = readHead(database)
      return history !== '' || seq > 0
    } finally {
      database.close()
    }
  } catch (error) {
    // After a kill it can only be read by who writes it. One whose journal had not begun has no log.
    return logged || isUnreadable(error)
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
