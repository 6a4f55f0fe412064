// Checks whether a database and its write-ahead log belong together. SQLite itself does not check that.
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Damage } from './damage.ts'

/**
 * The beginning of page 1 of a database, and the offsets of its page size, its page count and the number that `PRAGMA
 * user_version` shows: https://www.sqlite.org/fileformat.html.
 */
const magic = 'SQLite format 3\0'
const sizeAt = 16
const countAt = 28
const versionAt = 60

/**
 * The lengths of the head of a write-ahead log and of the head of each frame: https://www.sqlite.org/walformat.html.
 */
const walHead = 32
const frameHead = 24

/** The numbers of transactions start again at 0 after this many, because the database has 31 bits for them. */
const round = 2 ** 31

/** The value of `PRAGMA user_version` after `writes` transactions. */
export function versionAfter(writes: number): number {
  return writes % round
}

/**
 * What SQLite would read from a write-ahead log: the numbers of its first and its last transaction, the pages that it
 * has, and how many pages the database has after it.
 */
interface WriteAhead {
  first: number
  last: number
  pages: ReadonlySet<number>
  count: number
}

/**
 * Compares the numbers of transactions in a database and in its write-ahead log: each transaction of a store writes its
 * number into page 1. The number in the database must be one before the first in the log, or one of those in the log.
 * Each page must be in one of the two files. Returns undefined when they belong together, or when neither exists. `fd`
 * is a descriptor of the database; closing it releases all locks that the process has on the database.
 */
export function compareWriteAhead(file: string, fd: number): Damage | undefined {
  const wal = `${file}-wal`
  const log = existsSync(wal) ? readWriteAhead(wal) : undefined
  const page = readStart(fd, versionAt + 4)
  if (page.length < versionAt + 4)
    return log && { file, text: `is missing or cut off, while ${wal} goes on from it`, unsound: true }
  const own = page.readUInt32BE(versionAt)
  if (log && distance(own, log.first) > 1)
    return {
      file,
      text: `is older than ${wal}: it ends with transaction ${own}, and that begins with ${log.first}`,
      unsound: true
    }
  if (log && distance(log.last, own) > 0)
    return {
      file: wal,
      text: `is older than the database, or damaged: it ends with transaction ${log.last}, and the database has ${own}`,
      unsound: true
    }
  return log || !existsSync(`${file}-journal`) ? findMissing(file, page, fstatSync(fd).size, log) : undefined
}

/** Finds a page that is in neither file. A file that is not a database at all is left to SQLite to refuse. */
function findMissing(file: string, start: Buffer, length: number, log: WriteAhead | undefined): Damage | undefined {
  if (start.toString('latin1', 0, magic.length) !== magic) return undefined
  const count = log?.count ?? start.readUInt32BE(countAt)
  const there = Math.floor(length / start.readUInt16BE(sizeAt))
  for (let number = there + 1; number <= count; number++) {
    if (!log?.pages.has(number))
      return { file, text: `is cut off: it ends with page ${there} of ${count}`, unsound: true }
  }
  return undefined
}

/** How many transactions lie between `from` and `to`; negative when `to` is earlier. */
function distance(from: number, to: number): number {
  return ((to - from + 1.5 * round) % round) - round / 2
}

/** Reads the log; undefined when SQLite would find no transaction in it. */
function readWriteAhead(wal: string): WriteAhead | undefined {
  const fd = openSync(wal, 'r')
  try {
    return framesIn(fd)
  } finally {
    closeSync(fd)
  }
}

function framesIn(fd: number): WriteAhead | undefined {
  const head = readStart(fd, walHead)
  if (head.length < walHead) return undefined
  const mark = head.readUInt32BE(0)
  if (mark >>> 1 !== 0x377f0682 >>> 1) return undefined
  const sum = new Checksum(mark % 2 === 0)
  sum.add(head, 0, 24)
  if (!sum.is(head, 24)) return undefined
  const pageSize = head.readUInt32BE(8)
  const frame = Buffer.allocUnsafe(frameHead + pageSize)
  let first: number | undefined
  let last: number | undefined
  let latest: number | undefined
  let count = 0
  const pages = new Set<number>()
  let begun: number[] = []
  for (let at = walHead; readSync(fd, frame, 0, frame.length, at) === frame.length; at += frame.length) {
    sum.add(frame, 0, 8)
    sum.add(frame, frameHead, frame.length)
    if (frame.compare(head, 16, 24, 8, 16) !== 0 || !sum.is(frame, 16)) break
    const number = frame.readUInt32BE(0)
    if (number === 1) latest = frame.readUInt32BE(frameHead + versionAt)
    begun.push(number)
    // The last frame of a transaction has the size of the database after it.
    const size = frame.readUInt32BE(4)
    if (size === 0 || latest === undefined) continue
    for (const page of begun) pages.add(page)
    begun = []
    first ??= latest
    last = latest
    count = size
  }
  return first === undefined || last === undefined ? undefined : { first, last, pages, count }
}

/** The running checksum of a write-ahead log. */
class Checksum {
  #one = 0
  #two = 0
  readonly #little: boolean

  constructor(little: boolean) {
    this.#little = little
  }

  add(bytes: Buffer, from: number, to: number): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset + from, to - from)
    let [one, two] = [this.#one, this.#two]
    for (let at = 0; at < to - from; at += 8) {
      one = (one + view.getUint32(at, this.#little) + two) | 0
      two = (two + view.getUint32(at + 4, this.#little) + one) | 0
    }
    this.#one = one
    this.#two = two
  }

  /** Whether the checksum stored at `at` is this one. */
  is(bytes: Buffer, at: number): boolean {
    return bytes.readInt32BE(at) === this.#one && bytes.readInt32BE(at + 4) === this.#two
  }
}

function readStart(fd: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  return bytes.subarray(0, readSync(fd, bytes, 0, length, 0))
}
