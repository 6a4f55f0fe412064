// Room on the disk that is given up when the disk is full, so that a store which has filled it can make room by itself.
import { existsSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { diagnose } from './troubles.ts'

/** Twice what the write-ahead log has at most in bytes, as it may have to be added to the database. */
const spareBytes = 8 * 1024 * 1024
/** So few bytes left are few on any disk. */
const scarce = 64 * 1024 * 1024
/** A smaller database has filled no disk. */
const least = 4 * 1024 * 1024

function spareOf(file: string): string {
  return `${file}.spare`
}

/** Whether an error says that the disk is full. */
export function isFull(error: unknown): boolean {
  return diagnose(String(error)).cause === 'the disk is full'
}

/** Keeps room for a database, unless it has some already. Returns false when the disk has none. */
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

/** Gives the room up. Returns whether there was any. */
export function giveSpare(file: string): boolean {
  if (!existsSync(spareOf(file))) return false
  rmSync(spareOf(file))
  return true
}
