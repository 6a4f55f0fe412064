// Frames of a commit log as versions before histories wrote them: they are read once, by the start that brings a store up to date.
import { crc32 } from 'node:zlib'
import type { Batch } from './batch.ts'
import { decodeBatch } from './frame.ts'
import { Window } from './frame-reader.ts'
import type { Frame } from './frame-reader.ts'

/** Length of the payload, checksum of all that follows it, boot, number of the batch: four 32-bit integers, big-endian. */
const headBytes = 16

/** Far above what a batch may hold; a length beyond it is no length. */
const maxPayload = 512 * 1024 * 1024

/** The frames of a segment of the boot, and above the batch `after` only, up to the first bytes that are none. */
export function* readLegacyFrames(fd: number, boot: number, after: number): Generator<Frame> {
  const window = new Window(fd, 0)
  let batch: Batch | undefined
  for (let last = 0; window.fill(headBytes); ) {
    const length = window.bytes.readUInt32BE(window.at)
    if (length > maxPayload || !window.fill(headBytes + length)) return
    const bytes = window.bytes.subarray(window.at, window.at + headBytes + length)
    const number = bytes.readUInt32BE(12)
    if (crc32(bytes.subarray(8)) !== bytes.readUInt32BE(4) || bytes.readUInt32BE(8) !== boot || (last > 0 && number !== last + 1)) return
    last = number
    window.at += bytes.length
    if (number <= after) continue
    batch = decodeBatch(bytes.subarray(headBytes), batch)
    yield { batch, bytes: bytes.length }
  }
}
