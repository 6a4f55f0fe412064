// Writes what a start itself adds to the journal, into a segment of its own, before the log is opened.
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { syncDirectory } from '../files/directory.ts'
import type { Durability } from '../files/sqlite.ts'
import { FrameEncoder } from '../log/frame.ts'
import type { Batch } from '../rows/batch.ts'
import { pathOf } from './folder.ts'
import { encodeHead } from './segment-head.ts'
import type { SegmentHead } from './segment-head.ts'
import type { Written } from './segment-log.ts'

/** The segment of one start, whose file is made with its first frame. */
export class FirstSegment {
  readonly head: SegmentHead
  readonly #folder: string
  readonly #path: string
  readonly #durability: Durability
  readonly #encoder: FrameEncoder
  #fd: number | undefined

  constructor(folder: string, head: SegmentHead, durability: Durability) {
    this.head = head
    this.#folder = folder
    this.#path = pathOf(folder, 'segment', head.ordinal)
    this.#durability = durability
    this.#encoder = new FrameEncoder(head.history)
  }

  /** Whether it has a frame. */
  get begun(): boolean {
    return this.#fd !== undefined
  }

  /** Writes a batch, which is on disk when this returns. After it has thrown, the segment is of no use. */
  append(batch: Batch): Written {
    const frame = this.#encoder.encode(batch)
    const begun = this.begun
    const fd = (this.#fd ??= this.#create())
    // The head is on disk before the first frame is written: a frame without a head means that the head was damaged.
    for (const bytes of begun ? [frame] : [encodeHead(this.head), frame])
      for (let at = 0; at < bytes.length; at += writeSync(fd, bytes, at));
    return { head: this.head, path: this.#path, last: batch.number }
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
  }

  #create(): number {
    const synced = this.#durability === 'power'
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (synced ? constants.O_DSYNC : 0)
    const fd = openSync(this.#path, flags, 0o600)
    if (synced) syncDirectory(this.#folder)
    return fd
  }
}
