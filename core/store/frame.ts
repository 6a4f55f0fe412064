// A batch as the commit log holds it: one frame, whole or not there.
import { DefaultSerializer, deserialize } from 'node:v8'
import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { Batch } from './batch.ts'

/** Length of the payload, checksum of all that follows it, boot, number of the batch: four 32-bit integers, big-endian. */
const headBytes = 16

/** Read in one go; a frame that is longer is read by itself. */
const windowBytes = 1024 * 1024

/** A batch, and how long its frame is. */
export interface Frame {
  batch: Batch
  bytes: number
}

/**
 * The bytes of a frame. The payload is V8's serialization of the batch, which later versions of Node can read: it keeps
 * bigints and bytes as they are, and costs less than half of what JSON does.
 */
export function encodeFrame(batch: Batch, boot: number): Buffer {
  const serializer = new DefaultSerializer()
  serializer.writeRawBytes(emptyHead)
  serializer.writeHeader()
  serializer.writeValue(batch)
  const bytes = serializer.releaseBuffer()
  bytes.writeUInt32BE(bytes.length - headBytes, 0)
  bytes.writeUInt32BE(boot, 8)
  bytes.writeUInt32BE(batch.number, 12)
  bytes.writeUInt32BE(crc32(bytes.subarray(8)), 4)
  return bytes
}

const emptyHead = Buffer.alloc(headBytes)

/**
 * The frames of a segment, in the order in which they were written, of the boot and above the batch `after` only. A segment
 * is overwritten from its beginning, so the first bytes that are no frame, or the frame of an earlier use, are its end.
 */
export function* readFrames(fd: number, boot: number, after: number): Generator<Frame> {
  let window = Buffer.alloc(0)
  let at = 0
  let position = 0
  const fill = (needed: number): boolean => {
    if (window.length - at >= needed) return true
    const rest = window.subarray(at)
    const fresh = Buffer.allocUnsafe(Math.max(needed, windowBytes))
    rest.copy(fresh)
    let filled = rest.length
    for (let read = 1; read > 0 && filled < fresh.length; filled += read, position += read) read = readSync(fd, fresh, filled, fresh.length - filled, position)
    window = fresh.subarray(0, filled)
    at = 0
    return filled >= needed
  }
  for (let last = 0; fill(headBytes); ) {
    const length = window.readUInt32BE(at)
    if (length > maxPayload || !fill(headBytes + length)) return
    const bytes = window.subarray(at, at + headBytes + length)
    if (crc32(bytes.subarray(8)) !== bytes.readUInt32BE(4)) return
    const number = bytes.readUInt32BE(12)
    if (bytes.readUInt32BE(8) !== boot || (last > 0 && number !== last + 1)) return
    last = number
    at += bytes.length
    if (number > after) yield { batch: deserialize(bytes.subarray(headBytes)) as Batch, bytes: bytes.length }
  }
}

/** Far above what a batch may hold; a length beyond it is no length. */
const maxPayload = 512 * 1024 * 1024
