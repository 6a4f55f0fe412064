// Makes the next segment ready while the present one is written: a file full of zeros under its name, so that appending
// to it changes no size and its name is on disk before it is needed.
import { rmSync } from 'node:fs'
import { open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../files/directory.ts'
import type { Durability } from '../files/sqlite.ts'
import { pathOf } from './folder.ts'

/** A file that no frame was written to since it has its name. */
export interface ReadySegment {
  readonly ordinal: number
  readonly path: string
  /** How many bytes it has. */
  readonly size: number
}

/** How many bytes are written at a time. */
const stroke = 1024 * 1024
/** Milliseconds until another try after a failure. */
const pause = 1000

/** Keeps one segment ready. */
export class NextSegment {
  readonly #folder: string
  readonly #durability: Durability
  readonly #ordinal: () => number
  readonly #tell: (error: string | undefined) => void
  #ready: ReadySegment | undefined
  /** A file that was sealed, which can be used again. */
  #spent: string | undefined
  #work: Promise<void> | undefined
  #failed = -Infinity
  #closed = false

  /**
   * `ordinal` gives a number that no segment has had. `tell` is called with an error when no segment can be made, and
   * with undefined when that is over.
   */
  constructor(
    folder: string,
    durability: Durability,
    ordinal: () => number,
    tell: (error: string | undefined) => void
  ) {
    this.#folder = folder
    this.#durability = durability
    this.#ordinal = ordinal
    this.#tell = tell
  }

  get ready(): boolean {
    return this.#ready !== undefined
  }

  /** Makes one of at least so many bytes, unless one is there or is being made. */
  prepare(size: number): void {
    if (this.#ready || this.#work || this.#closed || performance.now() - this.#failed < pause) return
    this.#work = this.#make(size)
      .then(
        (ready) => {
          if (this.#failed !== -Infinity) this.#tell(undefined)
          this.#failed = -Infinity
          this.#ready = ready
        },
        (error: unknown) => {
          this.#failed = performance.now()
          this.#tell(String(error))
        }
      )
      .finally(() => (this.#work = undefined))
  }

  /** Takes the segment that is ready, if its number is higher than `after`. */
  take(after: number): ReadySegment | undefined {
    const ready = this.#ready
    this.#ready = undefined
    if (ready && ready.ordinal < after) {
      // Another one was made without waiting for it.
      rmSync(ready.path, { force: true })
      return undefined
    }
    return ready
  }

  /** Takes the file of a sealed segment, which nothing needs any more. */
  give(path: string): void {
    if (this.#spent === undefined && !this.#closed) this.#spent = path
    else rmSync(path, { force: true })
  }

  /** Resolves when nothing is being made. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#work
  }

  async #make(size: number): Promise<ReadySegment> {
    const ready = (await this.#again(size)) ?? (await this.#anew(size))
    if (this.#durability === 'power') syncDirectory(this.#folder)
    return ready
  }

  /** The spent file under a new name, if it is large enough. */
  async #again(size: number): Promise<ReadySegment | undefined> {
    const spent = this.#spent
    this.#spent = undefined
    if (spent === undefined) return undefined
    const { size: found } = await stat(spent)
    if (found >= size) return this.#name(spent, found)
    await rm(spent)
    return undefined
  }

  async #anew(size: number): Promise<ReadySegment> {
    const part = join(this.#folder, 'next.part')
    const file = await open(part, 'w+', 0o600)
    try {
      const zeros = Buffer.alloc(Math.min(size, stroke))
      for (let at = 0; at < size; at += stroke) await file.writeFile(zeros.subarray(0, Math.min(stroke, size - at)))
      if (this.#durability === 'power') await file.sync()
    } finally {
      await file.close()
    }
    return this.#name(part, size)
  }

  async #name(from: string, size: number): Promise<ReadySegment> {
    const ordinal = this.#ordinal()
    const path = pathOf(this.#folder, 'segment', ordinal)
    await rename(from, path)
    return { ordinal, path, size }
  }
}
