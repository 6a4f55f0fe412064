// The log of a store whose segments stay: appends frames, and goes on in another file when one is full or has failed.
import { close, closeSync, constants, openSync, rmSync, write } from 'node:fs'
import { syncDirectory } from '../files/directory.ts'
import type { Durability } from '../files/sqlite.ts'
import type { BatchLog, Handed } from '../log/batch-log.ts'
import { encodeNote } from '../log/segment.ts'
import { pathOf, reachPath } from './folder.ts'
import type { Start } from './chain.ts'
import { NextSegment } from './next-segment.ts'
import { encodeHead } from './segment-head.ts'
import type { SegmentHead } from './segment-head.ts'

/** Milliseconds between a batch and the note about it. */
const noteDelay = 20

/** Where a start goes on. */
export interface Continuation extends Start {
  /** The history before this start, and its last batch. */
  readonly previous: string
  readonly after: number
  /** A number that no segment has had. */
  readonly ordinal: number
}

/** The sizes of the first segments, which double, and of the later ones. In bytes. */
export interface SegmentSizes {
  readonly least: number
  readonly most: number
}

/** The usual sizes. */
export const usualSizes: SegmentSizes = { least: 1024 * 1024, most: 64 * 1024 * 1024 }

/** How the log writes. */
export interface LogOptions {
  readonly durability: Durability
  readonly sizes?: SegmentSizes | undefined
  /** Called with an error when no next segment can be made ready, and with undefined when that is over. */
  readonly tell?: (error: string | undefined) => void
}

/** How far a segment was written. */
export interface Written {
  readonly head: SegmentHead
  readonly path: string
  /** The last batch in it that was acknowledged. */
  readonly last: number
}

/** What was written since the last turn. */
export interface HandedSegments extends Handed {
  readonly written: readonly Written[]
  readonly bytes: number
}

interface Segment {
  readonly ordinal: number
  readonly path: string
  /** Undefined until its first frame is written. */
  head: SegmentHead | undefined
  readonly fd: number
  readonly size: number
  /** Where the next bytes go; 0 until the head is on disk. */
  end: number
  /** Whether a write to it has failed: nothing more is written to it then. */
  failed: boolean
}

/**
 * Appends frames. A frame is on disk when its write has returned: with durability `power` the files are opened for
 * synchronous writes, so that one call does both.
 */
export class SegmentLog implements BatchLog {
  readonly #folder: string
  readonly #options: { readonly [name in keyof LogOptions]-?: NonNullable<LogOptions[name]> }
  readonly #start: Start
  readonly #next: NextSegment
  readonly #reach: number
  /** The history that the next head names as the one it continues. */
  #previous: string
  #ordinal: number
  #active: Segment | undefined
  /** Segments that are written to no more, since the last call of `taken`. */
  readonly #full: Written[] = []
  /** The last batch on disk, and the last one that was handed over. */
  #last: number
  #turned: number
  /** How many bytes of frames were not freed yet. */
  #bytes = 0
  #size: number
  #noteTimer: NodeJS.Timeout | undefined
  #noting = false
  #closed = false
  /** Resolves when the last note is written. */
  readonly #left = Promise.withResolvers<void>()

  /**
   * The folder must be there, with nothing in it that a survey did not know.
   * @throws Error when the note cannot be opened
   */
  constructor(folder: string, { previous, after, ordinal, ...start }: Continuation, options: LogOptions) {
    this.#folder = folder
    const { durability, sizes = usualSizes, tell = () => {} } = options
    this.#options = { durability, sizes, tell }
    this.#start = start
    this.#previous = previous
    this.#last = this.#turned = after
    this.#ordinal = ordinal
    this.#size = sizes.least
    this.#next = new NextSegment(folder, durability, () => this.#ordinal++, tell)
    this.#reach = openSync(reachPath(folder), constants.O_RDWR | constants.O_CREAT, 0o600)
    this.#next.prepare(this.#size)
  }

  /** The last batch on disk. */
  get last(): number {
    return this.#last
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether the next segment is ready. While it is not, a full one is written on. */
  get ready(): boolean {
    return this.#next.ready
  }

  /** Takes what was written since the last call, by segment, in order. The last one may still be written to. */
  taken(): Written[] {
    const { head, path } = this.#active ?? {}
    const full = this.#full.splice(0)
    return head && path !== undefined ? [...full, { head, path, last: this.#last }] : full
  }

  turn(): HandedSegments | undefined {
    if (this.#turned === this.#last) return undefined
    this.#turned = this.#last
    return { written: this.taken(), last: this.#last, bytes: this.#bytes }
  }

  free({ bytes }: HandedSegments, spent: readonly string[]): void {
    this.#bytes -= bytes
    for (const path of spent) this.give(path)
  }

  /** A frame whose write failed goes to another file when it is appended again. */
  append(frame: Buffer, number: number, done: (error: Error | null) => void): void {
    let segment: Segment
    try {
      segment = this.#segmentFor(frame.length)
    } catch (error) {
      return void process.nextTick(done, error)
    }
    const failed = (error: Error): void => {
      this.#fail(segment)
      done(error)
    }
    const head = segment.head ?? this.#headOf(segment)
    const go = (): void =>
      this.#write(segment, frame, failed, () => {
        segment.head = head
        this.#bytes += frame.length
        this.#previous = this.#start.history
        this.#last = number
        this.#noteTimer ??= setTimeout(this.#note, noteDelay).unref()
        this.#next.prepare(this.#size)
        done(null)
      })
    // The head is on disk before the first frame is written: a frame without a head means that the head was damaged.
    if (segment.head) go()
    else this.#write(segment, encodeHead(head), failed, go)
  }

  /** Takes the file of a segment that nothing needs any more. */
  give(path: string): void {
    this.#next.give(path)
  }

  /** Leaves a note of the last batch. Call it when no write is under way. */
  async close(): Promise<void> {
    clearTimeout(this.#noteTimer)
    if (this.#active && !this.#active.failed) close(this.#active.fd, () => {})
    this.#active = undefined
    this.#closed = true
    if (!this.#noting) this.#note()
    await Promise.all([this.#next.close(), this.#left.promise])
  }

  #headOf({ ordinal }: Segment): SegmentHead {
    return { ...this.#start, ordinal, previous: this.#previous, after: this.#last }
  }

  /** Writes bytes behind what a segment has, and calls one of the two functions. */
  #write(segment: Segment, bytes: Buffer, failed: (error: Error) => void, done: () => void): void {
    let written = 0
    const go = (): void =>
      write(segment.fd, bytes, written, bytes.length - written, segment.end + written, (error, count) => {
        if (error) return failed(error)
        written += count
        // A nearly full disk takes a part of the bytes, and reports the error at the next call.
        if (written < bytes.length) return go()
        segment.end += bytes.length
        done()
      })
    go()
  }

  /** The segment for a frame of so many bytes. One that is full is written on while no other is ready. */
  #segmentFor(length: number): Segment {
    const active = this.#active
    if (active && !active.failed && (active.end + length <= active.size || !this.#next.ready)) return active
    const { ordinal, path, size } = this.#next.take(active?.ordinal ?? 0) ?? this.#create()
    const flags = constants.O_RDWR | (this.#options.durability === 'power' ? constants.O_DSYNC : 0)
    const segment: Segment = { ordinal, path, fd: openSync(path, flags), size, head: undefined, end: 0, failed: false }
    if (active?.head) this.#full.push({ head: active.head, path: active.path, last: this.#last })
    if (active && !active.failed) {
      close(active.fd, () => {})
      this.#size = Math.min(2 * this.#size, this.#options.sizes.most)
    }
    return (this.#active = segment)
  }

  /** Makes an empty segment at once. */
  #create(): { ordinal: number; path: string; size: number } {
    const ordinal = this.#ordinal++
    const path = pathOf(this.#folder, 'segment', ordinal)
    closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600))
    if (this.#options.durability === 'power') syncDirectory(this.#folder)
    return { ordinal, path, size: this.#size }
  }

  #fail(segment: Segment): void {
    segment.failed = true
    close(segment.fd, () => {})
    if (segment.head) return
    try {
      rmSync(segment.path)
    } catch {
      // The next start removes it: it has not begun.
    }
  }

  /** Notes how far the log has gone. A write that fails is not repeated: the next batch brings another note. */
  readonly #note = (): void => {
    this.#noting = true
    const batch = this.#last
    const bytes = encodeNote(this.#start.history, batch)
    write(this.#reach, bytes, 0, bytes.length, 0, (error) => {
      this.#noting = false
      this.#noteTimer = undefined
      if (!error && batch < this.#last) {
        if (this.#closed) return this.#note()
        this.#noteTimer = setTimeout(this.#note, noteDelay).unref()
      } else if (this.#closed) {
        closeSync(this.#reach)
        this.#left.resolve()
      }
    })
  }
}
