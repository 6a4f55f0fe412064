// Results of work, a file each, beside the database: too large for its rows.
import { hash } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from './segment.ts'
import type { Durability } from './sqlite.ts'

/** The folder of one database. */
export class Results {
  readonly #folder: string
  readonly #durability: Durability

  constructor(file: string, durability: Durability) {
    this.#folder = resultsFolder(file)
    this.#durability = durability
  }

  /** Resolves when it is as durable as the store is. A name has one result: the last. */
  async keep(name: string, bytes: Buffer): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    const path = this.#path(name)
    const file = await open(`${path}.part`, 'w', 0o600)
    try {
      await file.writeFile(bytes)
      if (this.#durability === 'power') await file.sync()
    } finally {
      await file.close()
    }
    await rename(`${path}.part`, path)
    if (this.#durability === 'power') syncDirectory(this.#folder)
  }

  /** Undefined when there is none. */
  async read(name: string): Promise<Buffer | undefined> {
    try {
      return await readFile(this.#path(name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  /** The names of all files that are there, whole or not. */
  async files(): Promise<readonly string[]> {
    try {
      return await readdir(this.#folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }

  /** Removes one of {@link Results.files}. */
  async remove(file: string): Promise<void> {
    await rm(join(this.#folder, file), { force: true })
  }

  async drop(name: string): Promise<void> {
    const path = this.#path(name)
    await rm(path, { force: true })
    // Of one that a crash kept from becoming whole.
    await rm(`${path}.part`, { force: true })
  }

  #path(name: string): string {
    return join(this.#folder, resultFile(name))
  }
}

/** Of the database in a file. */
export function resultsFolder(file: string): string {
  return `${file}.results`
}

/** Whatever a name is made of, its file is in the folder. */
export function resultFile(name: string): string {
  return hash('sha256', name)
}
