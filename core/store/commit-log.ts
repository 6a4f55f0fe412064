// The commit log: what was acknowledged and is not in the database yet, in two files that take turns.
import { close, constants, fstatSync, fsyncSync, openSync, closeSync, write } from 'node:fs'
import { dirname } from 'node:path'
import type { Durability } from './sqlite.ts'

/** Where the segments of a database are. */
export function segmentPaths(file: string): [string, string] {
  return [`${file}.log0`, `${file}.log1`]
}

/** One file. Frames are written from its beginning on, over those of its last turn. */
interface Segment {
  readonly path: string
  fd: number
  /** Bytes of this turn that are on disk. */
  length: number
  /** The last batch among them. */
  last: number
}

/** What is handed over to be applied. */
export interface Handed {
  path: string
  /** Good in every thread of the process. */
  fd: number
  /** The last batch in it. */
  last: number
}

/**
 * Appends frames to one segment while the other is applied to the database. A frame is on disk when its write has
 * returned: with `power` the file is opened for synchronous writes, so one call does both.
 */
export class CommitLog {
  readonly #flags: number
  readonly #segments: readonly [Segment, Segment]
  #active: Segment
  /** The last write to the active segment failed: what the kernel says of its file from now on is not to be believed. */
  #suspect = false

  /** @throws Error when the files can not be made */
  constructor(file: string, durability: Durability) {
    this.#flags = constants.O_RDWR | constants.O_CREAT | (durability === 'power' ? constants.O_DSYNC : 0)
    const [first, second] = segmentPaths(file).map((path) => ({ path, fd: openSync(path, this.#flags, 0o600), length: 0, last: 0 }))
    this.#segments = [first!, second!]
    this.#active = first!
    if (durability === 'power') syncDirectory(dirname(file))
  }

  /** Bytes that are not applied. */
  get bytes(): number {
    return this.#segments[0].length + this.#segments[1].length
  }

  /** Writes the frame of batch `number` behind the others; one at a time. What failed is to be appended again, whole. */
  append(frame: Buffer, number: number, done: (error: Error | null) => void): void {
    const segment = this.#active
    const fail = (error: unknown): void => {
      this.#suspect = true
      done(error instanceof Error ? error : new Error(String(error)))
    }
    if (this.#suspect) {
      try {
        this.#reopen(segment)
      } catch (error) {
        return void process.nextTick(fail, error)
      }
    }
    let written = 0
    const go = (): void =>
      write(segment.fd, frame, written, frame.length - written, segment.length + written, (error, bytes) => {
        if (error) return fail(error)
        written += bytes
        // A disk that is nearly full takes a part, and says why with the next call.
        if (written < frame.length) return go()
        segment.length += frame.length
        segment.last = number
        done(null)
      })
    go()
  }

  /** Takes the segment that was written to; appends go to the other from now on, which must have been freed. Undefined when it is empty. */
  turn(): Handed | undefined {
    const full = this.#active
    const other = this.#other(full.path)
    if (full.length === 0) return undefined
    if (other.length > 0) throw new Error(`${other.path} is still being applied`)
    this.#active = other
    return { path: full.path, fd: full.fd, last: full.last }
  }

  /** What was handed over is in the database. */
  free({ path }: Handed): void {
    const segment = this.#segments.find((segment) => segment.path === path)!
    segment.length = 0
  }

  close(): void {
    for (const { fd } of this.#segments) close(fd, () => {})
  }

  #other(path: string): Segment {
    return this.#segments[this.#segments[0].path === path ? 1 : 0]
  }

  #reopen(segment: Segment): void {
    const fresh = openSync(segment.path, this.#flags, 0o600)
    // Somebody put another file there: what was acknowledged is in the one that is open, until it is applied.
    const lost = segment.length > 0 && fstatSync(fresh).ino !== fstatSync(segment.fd).ino
    closeSync(lost ? fresh : segment.fd)
    if (!lost) segment.fd = fresh
    this.#suspect = false
  }
}

/** Makes the names of new files durable. */
export function syncDirectory(path: string): void {
  const fd = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
