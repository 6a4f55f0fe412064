// The commit log of a node: what became of holds while the database could not be reached, until it knows.
import { randomBytes } from 'node:crypto'
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CommitLog } from '../../../embedded/log/commit-log.ts'
import { FrameEncoder } from '../../../embedded/log/frame.ts'
import { readFrames, scanFrames } from '../../../embedded/log/frame-reader.ts'
import {
  baseOf,
  framesAt,
  historyBytes,
  makeSegments,
  readNote,
  readSegmentHead,
  segmentPaths
} from '../../../embedded/log/segment.ts'
import { emptyBatch } from '../../../embedded/rows/batch.ts'
import type { Batch } from '../../../embedded/rows/batch.ts'
import type { Durability } from '../../../embedded/files/sqlite.ts'

/**
 * What is written at once: prices, entries of the journal, and progress of holds, whose id is `[request, part]` as
 * JSON. The rest of a batch is empty.
 */
export type Record = Pick<Batch, 'prices' | 'entries' | 'touched'>

/** How long a write that failed is not tried again, in milliseconds. */
const pause = 100

/** A pair of files that is written to. */
interface Open {
  readonly file: string
  readonly log: CommitLog
  readonly encoder: FrameEncoder
  /** The number of the last frame. */
  number: number
}

/**
 * The log of one start, and those of earlier starts whose contents are not in the database yet. Files are made when
 * there is something to write, and removed when the database has all of it: what is read at a start was never in the
 * database as far as its process knew.
 */
export class OwnLog {
  /** What earlier starts have left, in order. Some of it may be in the database. */
  readonly left: readonly Record[]
  readonly #folder: string
  readonly #durability: Durability
  readonly #earlier: string[]
  #open: Open | undefined
  #tail: Promise<void> = Promise.resolve()
  /** How many writes are under way or wait. */
  #writing = 0
  #closed = false
  #failing = false

  /**
   * Reads the logs of a folder, which is made when missing. It belongs to one process at a time.
   * @throws Error when a log is damaged: charges may be missing; or when the folder cannot be written to
   */
  constructor(folder: string, durability: Durability) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    this.#folder = folder
    this.#durability = durability
    this.#earlier = readdirSync(folder)
      .filter((name) => name.endsWith('.log0'))
      .sort()
      .map((name) => join(folder, name.slice(0, -'.log0'.length)))
    this.left = this.#earlier.flatMap(readLog)
  }

  /** Whether the last write has failed, and is tried again. */
  get failing(): boolean {
    return this.#failing
  }

  /** Whether there are files that can be removed when the database has what is in them. */
  get used(): boolean {
    return this.#open !== undefined || this.#earlier.length > 0
  }

  /** How many bytes wait for the database, without those of earlier starts. */
  get bytes(): number {
    return this.#open?.log.bytes ?? 0
  }

  /** Resolves when it is on disk. It is tried again until it is, or the log is closed. */
  write(record: Record): Promise<void> {
    return this.#follow(() => append((this.#open ??= makeFiles(this.#folder, this.#durability)), record))
  }

  /** As {@link OwnLog.write}, of what the database refuses: it has files of its own, which stay for the next start. */
  keep(record: Record): Promise<void> {
    return this.#follow(async () => {
      const open = makeFiles(this.#folder, this.#durability)
      const error = await append(open, record)
      open.log.close()
      if (error) remove(open.file)
      return error
    })
  }

  /** Has something written behind everything else. */
  #follow(run: () => Promise<Error | null>): Promise<void> {
    this.#writing++
    const written = this.#tail.then(() => this.#steadily(run)).finally(() => this.#writing--)
    this.#tail = written.catch(() => {})
    return written
  }

  async #steadily(run: () => Promise<Error | null>): Promise<void> {
    while (!this.#closed) {
      const error = await new Promise<Error | null>((resolve) => resolve(run())).catch((thrown: Error) => thrown)
      this.#failing = error !== null
      if (!error) return
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    throw new Error('the log of the node is closed')
  }

  /** Everything that was written is in the database: the files go, and those of earlier starts. */
  clear(): void {
    if (this.#writing > 0) return
    for (const file of this.#earlier.splice(0)) remove(file)
    if (!this.#open) return
    const { file, log } = this.#open
    this.#open = undefined
    log.close()
    remove(file)
  }

  /** Ends it. Its files stay while they have something that is not in the database. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#tail
    this.#open?.log.close()
  }
}

/** Appends a frame; resolves with what went wrong. */
async function append(open: Open, record: Record): Promise<Error | null> {
  const number = open.number + 1
  const frame = Buffer.from(open.encoder.encode({ ...emptyBatch(number, Date.now()), ...record }))
  const error = await new Promise<Error | null>((resolve) => open.log.append(frame, number, resolve))
  if (!error) open.number = number
  return error
}

/** Makes a pair of files. Names sort by time, so that what was written first is sent first. */
function makeFiles(folder: string, durability: Durability): Open {
  const history = randomBytes(historyBytes).toString('hex')
  const file = join(folder, `${String(Date.now()).padStart(15, '0')}-${history}`)
  const head = { history, boot: 1, base: baseOf({ history, boot: 1, batch: 0, seq: 0, hash: '' }) }
  try {
    makeSegments(file, durability, head)
    return { file, log: new CommitLog(file, durability, head), encoder: new FrameEncoder(history), number: 0 }
  } catch (error) {
    remove(file)
    throw error
  }
}

/** The first file goes last, as a start looks for it. */
function remove(file: string): void {
  for (const path of segmentPaths(file).reverse()) rmSync(path, { force: true })
}

function readLog(file: string): Record[] {
  // A process may have ended while it made them, or removed them.
  const fds = segmentPaths(file)
    .filter((path) => existsSync(path))
    .map((path) => openSync(path, 'r'))
  try {
    const head = fds.map(readSegmentHead).find((one) => one !== undefined)
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
