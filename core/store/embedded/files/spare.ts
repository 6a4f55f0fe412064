// The spare file: space that is reserved on the disk and freed when the disk is full, so that a store which filled its
// disk can still delete records.
import { existsSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { diagnose } from './troubles.ts'

/** Twice the largest size of the write-ahead log in bytes, as all of it may have to be added to the database. */
const spareBytes = 8 * 1024 * 1024
/** A disk with fewer bytes left than this is nearly full, however large it is. */
const scarce = 64 * 1024 * 1024
/** A database smaller than this has not filled its disk, and gets no spare file. */
const least = 4 * 1024 * 1024

function spareOf(file: string): string {
  return `${file}.spare`
}

/** Whether an error says that the disk is full. */
export function isFull(error: unknown): boolean {
  return diagnose(String(error)).cause === 'the disk is full'
}

/** Makes the spare file of a database, unless it has one. Returns false when the disk has no space for it. */
export function keepSpare(file: string): boolean {
  const path = spareOf(file)
  if (statSync(file).size < least || existsSync(path)) return true
  try {
    writeFileSync(path, Buffer.alloc(spareBytes), { mode: 0o600 })
    return true
  } catch {
    rmSync(path, { force: true })
    return false
  }
}

/** Whether the disk of a database is nearly full: less is left than an eighth of it, or 64 MiB. */
export function isLow(file: string): boolean {
  const { bavail, blocks, bsize } = statfsSync(dirname(file))
  return bavail * bsize < Math.min(scarce, (blocks * bsize) / 8)
}

/** Deletes the spare file. Returns whether there was one. */
export function giveSpare(file: string): boolean {
  if (!existsSync(spareOf(file))) return false
  rmSync(spareOf(file))
  return true
}
