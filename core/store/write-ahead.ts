// Whether a database and SQLite's write-ahead log belong together: SQLite takes any two files for a pair.
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import type { Damage } from './damage.ts'

/** Where page 1 of a database has the number that `PRAGMA user_version` shows. */
const versionAt = 60

/** Of the write-ahead log: of its head and of each frame's, see https://www.sqlite.org/walformat.html. */
const walHead = 32
const frameHead = 24

/** The numbers of transactions go round: they have 31 bits in the database. */
const round = 2 ** 31

/** What `PRAGMA user_version` is after so many transactions. */
export function versionAfter(writes: number): number {
  return writes % round
}

/**
 * Compares the numbers of transactions: each one of this store writes its own into page 1. What was copied into the
 * database ends where the write-ahead log begins, or within it. Undefined when they go together, or when there is no log.
 * `fd` is of the database; who closes it gives up all locks that the process has on it.
 */
export function compareWriteAhead(file: string, fd: number): Damage | undefined {
  const wal = `${file}-wal`
  if (!existsSync(wal) || statSync(wal).size < walHead) return undefined
  const versions = walVersions(wal)
  if (!versions) return undefined
  const page = readStart(fd, versionAt + 4)
  if (page.length < versionAt + 4) return { file, text: `is missing or cut off, while ${wal} goes on from it`, unsound: true }
  const own = page.readUInt32BE(versionAt)
  if (distance(own, versions.first) > 1) return { file, text: `is older than ${wal}: it ends with transaction ${own}, and that begins with ${versions.first}`, unsound: true }
  if (distance(versions.last, own) > 0) return { file: wal, text: `is older than the database, or damaged: it ends with transaction ${versions.last}, and the database has ${own}`, unsound: true }
  return undefined
}

/** How many transactions come after `from` until `to`; negative when it is before. */
function distance(from: number, to: number): number {
  return ((to - from + 1.5 * round) % round) - round / 2
}

/** The numbers of the first and of the last transaction that SQLite takes from a write-ahead log; undefined when there is none. */
function walVersions(wal: string): { first: number; last: number } | undefined {
  const fd = openSync(wal, 'r')
  try {
    return versionsIn(fd)
  } finally {
    closeSync(fd)
  }
}

function versionsIn(fd: number): { first: number; last: number } | undefined {
  const head = readStart(fd, walHead)
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
  for (let at = walHead; readSync(fd, frame, 0, frame.length, at) === frame.length; at += frame.length) {
    sum.add(frame, 0, 8)
    sum.add(frame, frameHead, frame.length)
    if (frame.compare(head, 16, 24, 8, 16) !== 0 || !sum.is(frame, 16)) break
    if (frame.readUInt32BE(0) === 1) latest = frame.readUInt32BE(frameHead + versionAt)
    // The last frame of a transaction says how large the database is then.
    if (frame.readUInt32BE(4) === 0 || latest === undefined) continue
    first ??= latest
    last = latest
  }
  return first === undefined || last === undefined ? undefined : { first, last }
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

  /** Whether it is the one that stands there. */
  is(bytes: Buffer, at: number): boolean {
    return bytes.readInt32BE(at) === this.#one && bytes.readInt32BE(at + 4) === this.#two
  }
}

function readStart(fd: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  return bytes.subarray(0, readSync(fd, bytes, 0, length, 0))
}
