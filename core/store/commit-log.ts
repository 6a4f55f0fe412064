// The commit log: what was acknowledged and is not in the database yet, in two files that take turns.
import { close, constants, fstatSync, openSync, closeSync, write, writeSync } from 'node:fs'
import { encodeNote, framesAt, noteAt, segmentPaths, segmentStart } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import type { Durability } from './sqlite.ts'

/** Milliseconds from a batch until the other segment is told how far the log has gone. */
const noteDelay = 20

/** One file. Frames are written from its beginning on, over those of its last turn. */
interface Segment {
  readonly path: string
  fd: number
  /** Notes are written by it: they need not be durable when the write returns. */
  noteFd: number
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
  readonly #head: SegmentHead
  readonly #segments: readonly [Segment, Segment]
  #active: Segment
  /**
   * The last write to the active segment failed: what the kernel says of its file from now on is not to be believed.
   */
  #suspect = false
  /** The last batch on disk. */
  #last = 0
  #noteTimer: NodeJS.Timeout | undefined
  /** A note is being written: its file must not be closed under it. */
  #noting = false
  #closed = false

  /** The segments were made with this head. @throws Error when a file cannot be opened */
  constructor(file: string, durability: Durability, head: SegmentHead) {
    this.#flags = constants.O_RDWR | (durability === 'power' ? constants.O_DSYNC : 0)
    this.#head = head
    const [first, second] = segmentPaths(file).map((path) => ({
      path,
      fd: openSync(path, this.#flags),
      noteFd: openSync(path, constants.O_RDWR),
      length: 0,
      last: 0
    }))
    this.#segments = [first!, second!]
    this.#active = first!
  }

  /** Bytes that are not applied. */
  get bytes(): number {
    return this.#segments[0].length + this.#segments[1].length
  }

  /**
   * Writes the frame of batch `number` behind the others; one at a time. What failed is to be appended again, whole.
   */
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
      write(segment.fd, frame, written, frame.length - written, framesAt + segment.length + written, (error, bytes) => {
        if (error) return fail(error)
        written += bytes
        // A disk that is nearly full takes a part, and says why with the next call.
        if (written < frame.length) return go()
        segment.length += frame.length
        segment.last = this.#last = number
        this.#noteTimer ??= setTimeout(this.#note, noteDelay).unref()
        done(null)
      })
    go()
  }

  /**
   * Takes the segment that was written to; appends go to the other from now on, which must have been freed. Undefined
   * when it is empty.
   */
  turn(): Handed | undefined {
    const full = this.#active
    const other = this.#other(full)
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
    this.#closed = true
    clearTimeout(this.#noteTimer)
    for (const { fd } of this.#segments) close(fd, () => {})
    if (!this.#noting) this.#closeNotes()
  }

  #other(segment: Segment): Segment {
    return this.#segments[this.#segments[0] === segment ? 1 : 0]
  }

  /** One that fails is not repeated: the next batch brings another. */
  readonly #note = (): void => {
    this.#noting = true
    const batch = this.#last
    const bytes = encodeNote(this.#head.history, batch)
    write(this.#other(this.#active).noteFd, bytes, 0, bytes.length, noteAt, (error) => {
      this.#noting = false
      this.#noteTimer = undefined
      if (this.#closed) return this.#closeNotes()
      if (!error && batch < this.#last) this.#noteTimer = setTimeout(this.#note, noteDelay).unref()
    })
  }

  #closeNotes(): void {
    for (const { noteFd } of this.#segments) close(noteFd, () => {})
  }

  #reopen(segment: Segment): void {
    const fresh = openSync(segment.path, this.#flags | constants.O_CREAT, 0o600)
    const other = fstatSync(fresh).ino !== fstatSync(segment.fd).ino
    // Somebody put another file there: what was acknowledged is in the one that is open, until it is applied.
    const lost = segment.length > 0 && other
    if (!lost && other) {
      const start = segmentStart(this.#head)
      writeSync(fresh, start, 0, start.length, 0)
    }
    closeSync(lost ? fresh : segment.fd)
    if (!lost) segment.fd = fresh
    this.#suspect = false
  }
}
