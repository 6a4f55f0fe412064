// The folder of a journal: what its files are called, and how a file gets its place in it.
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync
} from 'node:fs'
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

/**
 * Whether a folder has a journal in segments. One that has no batch yet may have its note alone: a start removes
 * segments that have not begun, and may be killed before it has made the next.
 */
export function hasJournal(folder: string): boolean {
  return existsSync(reachPath(folder)) || listNumbered(folder).length > 0
}

/** Makes the folder of a store, if it has none, and removes what was left unfinished. */
export function prepareFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of names(folder)) if (name.endsWith('.part')) rmSync(join(folder, name))
}

/**
 * A file that is written beside its place, and gets there when it is whole: with `power`, a loss of power leaves what
 * was there, or the file.
 */
export class PlacedFile {
  readonly #path: string
  readonly #durability: Durability
  #fd: number | undefined

  constructor(path: string, durability: Durability) {
    this.#path = path
    this.#durability = durability
    this.#fd = openSync(this.part, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC, 0o600)
  }

  /** For reading and writing, until the file gets its place. */
  get fd(): number {
    return this.#fd!
  }

  /** Where it is until it gets its place. */
  get part(): string {
    return `${this.#path}.part`
  }

  place(): void {
    const synced = this.#durability === 'power'
    if (synced) fsyncSync(this.fd)
    // A close may report that what was written is lost.
    const fd = this.fd
    this.#fd = undefined
    closeSync(fd)
    renameSync(this.part, this.#path)
    if (synced) syncDirectory(join(this.#path, '..'))
  }

  /** Removes what was written, unless it has its place. */
  drop(): void {
    if (this.#fd === undefined) return
    closeSync(this.#fd)
    this.#fd = undefined
    rmSync(this.part, { force: true })
  }
}

/** Writes a file and gives it its place. */
export function placeFile<T>(path: string, durability: Durability, write: (fd: number) => T): T {
  const file = new PlacedFile(path, durability)
  try {
    const result = write(file.fd)
    file.place()
    return result
  } finally {
    file.drop()
  }
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
