// The commit log: two files that take turns, with the batches that were acknowledged but are not in the database yet.
import { close, constants, fstatSync, openSync, closeSync, write, writeSync } from 'node:fs'
import type { BatchLog, Handed } from './batch-log.ts'
import { encodeNote, framesAt, noteAt, segmentPaths, segmentStart } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import type { Durability } from '../files/sqlite.ts'

/** Milliseconds between a batch and the note about it in the other segment. */
const noteDelay = 20

/** One of the two files. Its frames start at the beginning and overwrite those of its previous use. */
interface Segment {
  readonly path: string
  fd: number
  /** The descriptor for notes, which need not be durable when the write returns. */
  noteFd: number
  /** How many bytes of frames were written to it in this use. */
  length: number
  /** The number of the last batch written to it. */
  last: number
}

/** A full segment for the writer thread. */
export interface HandedFile extends Handed {
  readonly path: string
  /** Valid in every thread of the process. */
  readonly fd: number
}

/**
 * Appends frames to one segment while the other is applied to the database. A frame is on disk when its write has
 * returned: with durability `power` the file is opened for synchronous writes, so one call does both.
 */
export class CommitLog implements BatchLog {
  readonly #flags: number
  readonly #head: SegmentHead
  readonly #segments: readonly [Segment, Segment]
  #active: Segment
  /**
   * Whether the last write to the active segment failed. The file is then opened anew, because the kernel may report
   * success for data that it lost.
   */
  #suspect = false
  /** The number of the last batch on disk. */
  #last = 0
  #noteTimer: NodeJS.Timeout | undefined
  /** Whether a note is being written. Its file must not be closed meanwhile. */
  #noting = false
  #closed = false

  /**
   * `head` is the head that both segments were created with.
   * @throws Error when a file cannot be opened
   */
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

  get bytes(): number {
    return this.#segments[0].length + this.#segments[1].length
  }

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
        // A nearly full disk takes a part of the frame, and reports the error at the next call.
        if (written < frame.length) return go()
        segment.length += frame.length
        segment.last = this.#last = number
        this.#noteTimer ??= setTimeout(this.#note, noteDelay).unref()
        done(null)
      })
    go()
  }

  /**
   * Returns the active segment, to be applied; undefined when it is empty. Later frames go to the other segment, which
   * must have been freed.
   */
  turn(): HandedFile | undefined {
    const full = this.#active
    const other = this.#other(full)
    if (full.length === 0) return undefined
    if (other.length > 0) throw new Error(`${other.path} is still being applied`)
    this.#active = other
    return { path: full.path, fd: full.fd, last: full.last }
  }

  /** Lets the file be written again. */
  free({ path }: HandedFile): void {
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

  /**
   * Writes the number of the last batch into the other segment. A write that fails is not repeated: the next batch
   * brings another note.
   */
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
    // Somebody replaced the file. The acknowledged batches are in the file that is still open, so that one is used
    // until they are applied.
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
