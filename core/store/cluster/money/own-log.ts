// The commit log of a node: what became of holds while the database could not be reached, until it knows.
import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CommitLog } from '../../embedded/log/commit-log.ts'
import { FrameEncoder } from '../../embedded/log/frame.ts'
import { readFrames, scanFrames } from '../../embedded/log/frame-reader.ts'
import {
  baseOf,
  framesAt,
  historyBytes,
  makeSegments,
  readNote,
  readSegmentHead,
  segmentPaths
} from '../../embedded/log/segment.ts'
import { emptyBatch } from '../../embedded/rows/batch.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { Durability } from '../../embedded/files/sqlite.ts'

/**
 * What is written at once: prices, entries of the journal, and progress of holds, whose id is `[request, part]` as
 * JSON. The rest of a batch is empty.
 */
export type Record = Pick<Batch, 'prices' | 'entries' | 'touched'>

/** How long a write that failed is not tried again, in milliseconds. */
const pause = 100

/** The log of one start, and those of earlier starts whose contents are not in the database yet. */
export class OwnLog {
  /** What earlier starts have left, in order. Some of it may be in the database. */
  readonly left: readonly Record[]
  readonly #earlier: string[]
  readonly #file: string
  readonly #log: CommitLog
  readonly #encoder: FrameEncoder
  #number = 0
  #tail: Promise<void> = Promise.resolve()
  /** How many writes are under way or wait. */
  #writing = 0
  #closed = false
  #failing = false

  /**
   * Opens the logs of a folder, which is made when missing. It belongs to one process at a time.
   * @throws Error when a log is damaged: charges may be missing
   */
  constructor(folder: string, durability: Durability) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#earlier = readdirSync(folder)
      .filter((name) => name.endsWith('.log0'))
      .sort()
      .map((name) => join(folder, name.slice(0, -'.log0'.length)))
    this.left = this.#earlier.flatMap(readLog)
    const history = randomBytes(historyBytes).toString('hex')
    // Names sort by time, so that what was written first is sent first.
    this.#file = join(folder, `${String(Date.now()).padStart(15, '0')}-${history}`)
    const base = baseOf({ history, boot: 1, batch: 0, seq: 0, hash: '' })
    const head = { history, boot: 1, base }
    makeFiles(this.#file)
    makeSegments(this.#file, durability, head)
    this.#encoder = new FrameEncoder(history)
    this.#log = new CommitLog(this.#file, durability, head)
  }

  /** Whether the last write has failed, and is tried again. */
  get failing(): boolean {
    return this.#failing
  }

  /** How many bytes wait for the database, without those of earlier starts. */
  get bytes(): number {
    return this.#log.bytes
  }

  /** Resolves when it is on disk. It is tried again until it is, or the log is closed. */
  write(record: Record): Promise<void> {
    this.#writing++
    const written = this.#tail.then(() => this.#append(record)).finally(() => this.#writing--)
    this.#tail = written.catch(() => {})
    return written
  }

  async #append(record: Record): Promise<void> {
    const number = ++this.#number
    const frame = Buffer.from(this.#encoder.encode({ ...emptyBatch(number, Date.now()), ...record }))
    while (!this.#closed) {
      const error = await new Promise<Error | null>((resolve) => this.#log.append(frame, number, resolve))
      this.#failing = error !== null
      if (!error) return
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    throw new Error('the log of the node is closed')
  }

  /** Everything that was written is in the database: the room is free again, and earlier logs go. */
  clear(): void {
    for (const file of this.#earlier.splice(0)) remove(file)
    if (this.#writing > 0 || this.#log.bytes === 0) return
    const full = this.#log.turn()
    if (full) this.#log.free(full)
  }

  /** Ends it. Its files stay while they have something that is not in the database. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#tail
    this.#log.close()
    if (this.#log.bytes === 0) remove(this.#file)
  }
}

function makeFiles(file: string): void {
  for (const path of segmentPaths(file)) closeSync(openSync(path, 'wx', 0o600))
}

function remove(file: string): void {
  for (const path of segmentPaths(file)) rmSync(path, { force: true })
}

function readLog(file: string): Record[] {
  const fds = segmentPaths(file).map((path) => openSync(path, 'r'))
  try {
    const head = fds.map(readSegmentHead).find((one) => one !== undefined)
    // A process that ended while it made the files had written nothing to them.
    if (!head) return []
    const { history } = head
    const frames = fds.flatMap((fd) => [...readFrames(fd, history, 0, framesAt)].map(({ batch }) => batch))
    const last = frames.reduce((most, { number }) => Math.max(most, number), 0)
    const known = Math.max(
      ...fds.map((fd) => readNote(fd, history)),
      ...fds.flatMap((fd) =>
        [...scanFrames(fd, history, last, framesAt)].map(({ number, whole }) => (whole ? number : 0))
      )
    )
    if (known > last)
      throw new Error(
        `${file}.log0 and .log1 are damaged: they had ${known} batches of charges, and ${last} can be read. ` +
          'Bring them back, or move them away: the requests in them are then charged by estimate'
      )
    return frames.sort((one, other) => one.number - other.number)
  } finally {
    for (const fd of fds) closeSync(fd)
  }
}
