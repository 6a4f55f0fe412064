// Reads the frames of a segment: either in order, to apply them, or all that can be found, to see which are undamaged.
import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { Batch } from '../rows/batch.ts'
import { decodeBatch, findMark, headBytes, readFrameHead } from './frame.ts'

/** How many bytes are read at a time. The buffer grows for a longer frame. */
const windowBytes = 256 * 1024

/** The number of a batch, and the bytes of its frame, which are valid until the next one is read. */
export interface RawFrame {
  readonly number: number
  readonly bytes: Buffer
  /** The position behind it in what it was read from. */
  readonly end: number
}

/** A batch, and its frame, which is valid until the next one is read. */
export interface Frame {
  batch: Batch
  bytes: Buffer
  /** The position behind it in what it was read from. */
  end: number
}

/** A position in a file, and the bytes from there on that are in memory. */
export class Window {
  /** The bytes from `at` to `end` are those of the file from {@link place} on. */
  bytes = Buffer.allocUnsafeSlow(windowBytes)
  at = 0
  end = 0
  readonly #fd: number
  /** The position in the file of the next read. */
  #position: number

  constructor(fd: number, from: number) {
    this.#fd = fd
    this.#position = from
  }

  /** The position in the file of the byte at `at`. */
  get place(): number {
    return this.#position - this.end + this.at
  }

  /** Reads until `needed` bytes are in memory. Returns false when the file ends before. */
  fill(needed: number): boolean {
    if (this.end - this.at >= needed) return true
    const target = needed <= this.bytes.length ? this.bytes : Buffer.allocUnsafeSlow(needed)
    this.end = this.bytes.copy(target, 0, this.at, this.end)
    this.at = 0
    this.bytes = target
    for (let read = 1; read > 0 && this.end < target.length; this.end += read, this.#position += read) {
      read = readSync(this.#fd, target, this.end, target.length - this.end, this.#position)
    }
    return this.end >= needed
  }
}

/**
 * Yields the frames of a history from a position in a segment, in the order of their batches, leaving out batches up to
 * `after`. Ends at the first bytes that are not the next frame: those are left from an earlier use of the segment.
 */
export function* readFrames(fd: number, history: string, after: number, from: number): Generator<Frame> {
  let batch: Batch | undefined
  for (const { bytes, end } of rawFrames(fd, history, after, from))
    yield { batch: (batch = decodeBatch(bytes.subarray(headBytes), batch)), bytes, end }
}

/** Likewise, but does not decode what they have. */
export function* rawFrames(fd: number, history: string, after: number, from: number): Generator<RawFrame> {
  const window = new Window(fd, from)
  const own = Buffer.from(history, 'hex')
  for (let last = 0; window.fill(headBytes);) {
    const head = readFrameHead(window.bytes, window.at, own)
    if (!head || (last > 0 && head.number !== last + 1) || !window.fill(headBytes + head.length)) return
    const payload = window.bytes.subarray(window.at + headBytes, window.at + headBytes + head.length)
    if (crc32(payload) !== head.checksum) return
    last = head.number
    window.at += headBytes + head.length
    if (last <= after) continue
    const bytes = window.bytes.subarray(window.at - headBytes - head.length, window.at)
    yield { number: last, bytes, end: window.place }
  }
}

/**
 * Yields the frames of a history in bytes that have nothing else, leaving out batches up to `after`.
 * @throws Error when there is anything else in them
 */
export function* framesIn(bytes: Buffer, history: string, after: number): Generator<Frame> {
  const own = Buffer.from(history, 'hex')
  let batch: Batch | undefined
  for (let at = 0; at < bytes.length;) {
    const head = at + headBytes <= bytes.length ? readFrameHead(bytes, at, own) : undefined
    const end = at + headBytes + (head?.length ?? 0)
    const payload = bytes.subarray(at + headBytes, end)
    if (!head || end > bytes.length || crc32(payload) !== head.checksum)
      throw new Error(`has something else than a frame at byte ${at} of a block`)
    if (head.number > after) yield { batch: (batch = decodeBatch(payload, batch)), bytes: bytes.subarray(at, end), end }
    at = end
  }
}

/** The position of a frame. */
export interface Found {
  number: number
  /** The positions in the file of its first byte, and of the byte after its last. */
  from: number
  to: number
  /** Whether its payload matches the checksum. */
  whole: boolean
}

/**
 * Yields every frame of a history in a segment from a position on, in any order of batches: frames behind damaged
 * bytes, and frames left from earlier uses. The payloads of batches up to `after` are not checked.
 */
export function* scanFrames(fd: number, history: string, after: number, from: number): Generator<Found> {
  const window = new Window(fd, from)
  const own = Buffer.from(history, 'hex')
  while (window.fill(headBytes)) {
    const head = readFrameHead(window.bytes, window.at, own)
    if (!head) {
      const next = findMark(window.bytes.subarray(0, window.end), window.at + 1)
      // A mark may begin in the last bytes of what was read.
      window.at = next === -1 ? window.end - headBytes + 1 : next
      continue
    }
    const { number, length, checksum } = head
    const place = window.place
    const all = window.fill(headBytes + length)
    const whole =
      all &&
      (number <= after ||
        crc32(window.bytes.subarray(window.at + headBytes, window.at + headBytes + length)) === checksum)
    yield { number, from: place, to: place + headBytes + length, whole }
    // The length is right, because the head has a checksum of its own. But another frame may have been written over a
    // damaged payload, so the search goes on inside it.
    window.at += whole ? headBytes + length : headBytes
  }
}
