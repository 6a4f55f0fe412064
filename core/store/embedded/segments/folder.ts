// The folder of a journal: what its files are called, and how a file gets its place in it.
import { closeSync, constants, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory } from '../files/directory.ts'
import type { Durability } from '../files/sqlite.ts'

/** What the numbered files are: see README.md. */
export type Kind = 'segment' | 'volume' | 'checkpoint'

/** A numbered file: a segment or volume by its ordinal, a checkpoint by its batch. */
export interface Numbered {
  readonly kind: Kind
  readonly number: number
  readonly path: string
}

/** So many digits have the numbers of names, which then sort as they follow each other. */
const digits = 16
const named = /^(segment|volume|checkpoint)-(\d{16})$/

/** The path of a numbered file. */
export function pathOf(folder: string, kind: Kind, number: number): string {
  return join(folder, `${kind}-${String(number).padStart(digits, '0')}`)
}

/** The note how far the log has gone. */
export function reachPath(folder: string): string {
  return join(folder, 'reach')
}

/** The numbered files of a folder, the lowest numbers first; none when there is no such folder. */
export function listNumbered(folder: string): Numbered[] {
  return names(folder)
    .sort()
    .flatMap((name) => {
      const [, kind, number] = named.exec(name) ?? []
      return kind === undefined ? [] : [{ kind: kind as Kind, number: Number(number), path: join(folder, name) }]
    })
}

/** Makes the folder of a store, if it has none, and removes what was left unfinished. */
export function prepareFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of names(folder)) if (name.endsWith('.part')) rmSync(join(folder, name))
}

/**
 * Writes a file beside its place, and puts it there when it is whole: with `power`, a loss of power leaves it as it
 * was, or as it is to be. `write` gets a descriptor for reading and writing.
 */
export function placeFile<T>(path: string, durability: Durability, write: (fd: number) => T): T {
  const part = `${path}.part`
  const fd = openSync(part, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC, 0o600)
  let result: T
  try {
    result = write(fd)
    if (durability === 'power') fsyncSync(fd)
  } catch (error) {
    closeSync(fd)
    rmSync(part, { force: true })
    throw error
  }
  // A close may report that what was written is lost.
  closeSync(fd)
  renameSync(part, path)
  if (durability === 'power') syncDirectory(join(path, '..'))
  return result
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
