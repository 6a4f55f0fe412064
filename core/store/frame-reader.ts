// Reads the frames of a segment: one after the other to apply them, or whatever there is of them to see what is whole.
import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { Batch } from './batch.ts'
import { decodeBatch, findMark, headBytes, readFrameHead } from './frame.ts'

/** Read in one go; a frame that is longer is read by itself. */
const windowBytes = 256 * 1024

/** A batch, and how long its frame is. */
export interface Frame {
  batch: Batch
  bytes: number
}

/** A place in a file, and the bytes from there on that are in memory. */
export class Window {
  /** What is looked at begins at `at`; what was read ends at `end`. */
  bytes = Buffer.allocUnsafeSlow(windowBytes)
  at = 0
  end = 0
  readonly #fd: number
  /** What of the file is read next. */
  #position: number

  constructor(fd: number, from: number) {
    this.#fd = fd
    this.#position = from
  }

  /** The place in the file. */
  get place(): number {
    return this.#position - this.end + this.at
  }

  /** Reads until so many bytes can be looked at. Returns false when the file ends before. */
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
 * The frames of a history from a place in a segment on, in the order in which they were written, above the batch
 * `after` only. Ends with the first bytes that are no such frame: a segment is overwritten from its beginning.
 */
export function* readFrames(fd: number, history: string, after: number, from: number): Generator<Frame> {
  const window = new Window(fd, from)
  const own = Buffer.from(history, 'hex')
  let batch: Batch | undefined
  for (let last = 0; window.fill(headBytes);) {
    const head = readFrameHead(window.bytes, window.at, own)
    if (!head || (last > 0 && head.number !== last + 1) || !window.fill(headBytes + head.length)) return
    const payload = window.bytes.subarray(window.at + headBytes, window.at + headBytes + head.length)
    if (crc32(payload) !== head.checksum) return
    last = head.number
    window.at += headBytes + head.length
    if (last <= after) continue
    batch = decodeBatch(payload, batch)
    yield { batch, bytes: headBytes + head.length }
  }
}

/** Where a frame is. */
export interface Found {
  number: number
  /** Of its first byte, and of the one behind it, in the file. */
  from: number
  to: number
  /** It is what was written. */
  whole: boolean
}

/**
 * Every frame of a history that a segment has from a place on, wherever it is: behind damaged bytes too, and what is
 * left of earlier uses. The payloads of batches up to `after` are not looked at.
 */
export function* scanFrames(fd: number, history: string, after: number, from: number): Generator<Found> {
  const window = new Window(fd, from)
  const own = Buffer.from(history, 'hex')
  while (window.fill(headBytes)) {
    const head = readFrameHead(window.bytes, window.at, own)
    if (!head) {
      const next = findMark(window.bytes.subarray(0, window.end), window.at + 1)
      // A mark may begin in the last bytes that were read.
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
    // What is said of the length is believed, as the head is whole; but another frame may have been written into a
    // payload that is not.
    window.at += whole ? headBytes + length : headBytes
  }
}
