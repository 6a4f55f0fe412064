// Stores the results of work, each in a file beside the database, because they are too large for its rows.
import { hash } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from './directory.ts'
import type { Durability } from './sqlite.ts'

/** The results of one store. */
export class Results {
  readonly #folder: string
  readonly #durability: Durability

  constructor(file: string, durability: Durability) {
    this.#folder = resultsFolder(file)
    this.#durability = durability
  }

  /** Keeps a result, in the place of an earlier one of the same name. Resolves when it is as durable as the store. */
  async put(name: string, bytes: Buffer): Promise<void> {
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

  /** Reads a result; undefined when there is none. */
  async read(name: string): Promise<Buffer | undefined> {
    try {
      return await readFile(this.#path(name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  /** The names of all files in the folder, including incomplete ones. */
  async files(): Promise<readonly string[]> {
    try {
      return await readdir(this.#folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }

  /** Deletes one of {@link Results.files}. */
  async remove(file: string): Promise<void> {
    await rm(join(this.#folder, file), { force: true })
  }

  async drop(name: string): Promise<void> {
    const path = this.#path(name)
    await rm(path, { force: true })
    // A crash may have left an incomplete file as well.
    await rm(`${path}.part`, { force: true })
  }

  #path(name: string): string {
    return join(this.#folder, resultFile(name))
  }
}

/** The folder with the results of the store in `file`. */
export function resultsFolder(file: string): string {
  return `${file}.results`
}

/** The file name of a result. It is a digest, so that no name leads out of the folder. */
export function resultFile(name: string): string {
  return hash('sha256', name)
}
