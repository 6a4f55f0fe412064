// Knows the folder of regular backups again, by a mark in it: one that is missing or empty because its disk is not
// mounted must not be made anew, or backups would fill the disk below.
import { randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { syncDirectory } from '../files/directory.ts'

/** The file in the folder that marks it. Stores with the same folder share it. */
const markName = '.sluice-backups'

/**
 * Goes to the folder of the backups of a store. One that this store has never had backups in is made.
 * @throws Error when it is not the folder that it was, or cannot be read or made
 */
export function enterFolder(folder: string, file: string): void {
  const path = resolve(folder)
  const list = `${file}.backups`
  const known = JSON.parse(read(list) ?? '{}') as Record<string, string>
  const mark = read(join(path, markName))?.trim()
  const before = known[path]
  if (before !== undefined) {
    if (mark === before) return
    throw new Error(
      `${path} is not the folder that has the backups: its file ${markName} is ${mark === undefined ? 'missing' : 'another one'}. Is its disk mounted? To begin anew in this folder, remove ${list}`
    )
  }
  mkdirSync(path, { recursive: true, mode: 0o700 })
  const made = mark ?? randomUUID()
  if (mark === undefined) write(join(path, markName), made)
  write(list, JSON.stringify({ ...known, [path]: made }))
}

/** The text of a file; undefined when there is none. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes a file durably, as a whole or not at all. */
function write(path: string, text: string): void {
  const fd = openSync(`${path}.new`, 'w', 0o600)
  try {
    writeFileSync(fd, `${text}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(`${path}.new`, path)
  syncDirectory(dirname(path))
}
