// A batch as the commit log holds it: one frame, whole or not there.
import { deserialize } from 'node:v8'
import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { answerColumns, emptyBatch, entryColumns, holdColumns, keyColumns, recordColumns, routeColumns } from './batch.ts'
import type { Batch } from './batch.ts'
import { Packer, Unpacker } from './packing.ts'

/** Length of the payload, checksum of all that follows it, boot, number of the batch: four 32-bit integers, big-endian. */
const headBytes = 16

/** The first byte of a payload: rows of a {@link Packer}, or V8's serialization of the batch, as earlier versions wrote it. */
const packed = 1
const serialized = 0xff

/** Read in one go; a frame that is longer is read by itself. */
const windowBytes = 256 * 1024

/** An encoder's room, unless a batch needs more. */
const roomBytes = 256 * 1024

/** A batch, and how long its frame is. */
export interface Frame {
  batch: Batch
  bytes: number
}

/** Writes frames, one after the other into the same memory. */
export class FrameEncoder {
  readonly #packer = new Packer()
  readonly #room = Buffer.allocUnsafeSlow(roomBytes)

  /** The bytes of a frame, good until the next is asked for. */
  encode(batch: Batch, boot: number): Buffer {
    const packer = this.#packer
    packer.rows([batch.number, batch.written, batch.balanced ? 1 : 0], 3)
    packer.rows(batch.prices, 2)
    packer.rows(batch.moves, 4)
    packer.rows(batch.limits, 3)
    packer.rows(batch.opened, holdColumns.length)
    packer.rows(batch.touched, 3)
    packer.rows(batch.closed, 1)
    packer.rows(batch.entries, entryColumns.length)
    packer.rows(batch.records, recordColumns.length)
    packer.rows(batch.keys, keyColumns.length)
    packer.rows(batch.leased, 2)
    packer.rows(batch.answers, answerColumns.length)
    packer.rows(batch.routes, routeColumns.length)
    const most = headBytes + 1 + packer.mostBytes
    const room = most <= roomBytes ? this.#room : Buffer.allocUnsafeSlow(most)
    room[headBytes] = packed
    const bytes = room.subarray(0, packer.write(room, headBytes + 1))
    bytes.writeUInt32BE(bytes.length - headBytes, 0)
    bytes.writeUInt32BE(boot, 8)
    bytes.writeUInt32BE(batch.number, 12)
    bytes.writeUInt32BE(crc32(bytes.subarray(8)), 4)
    return bytes
  }
}

/** `before`: a batch that was read before. */
function decode(payload: Buffer, before: Batch | undefined): Batch {
  if (payload[0] === serialized) return { ...emptyBatch(0, 0), ...(deserialize(payload) as Partial<Batch>) }
  if (payload[0] !== packed) throw new Error(`the commit log has format ${payload[0]}, which this program does not know: start the one that wrote it`)
  const rows = new Unpacker(payload.subarray(1))
  const [number, written, balanced] = rows.next(3) as [number, number, number]
  return {
    number, written, balanced: balanced === 1,
    // In the order in which they were written.
    prices: rows.next(2) as string[],
    moves: rows.next(4) as Batch['moves'],
    limits: rows.next(3) as Batch['limits'],
    opened: rows.next(holdColumns.length),
    touched: rows.next(3),
    closed: rows.next(1) as number[],
    entries: rows.next(entryColumns.length, before?.entries),
    records: rows.next(recordColumns.length, before?.records),
    keys: rows.next(keyColumns.length),
    // What earlier versions did not write is empty.
    leased: rows.next(2) as number[],
    answers: rows.next(answerColumns.length),
    routes: rows.next(routeColumns.length)
  }
}

/**
 * The frames of a segment, in the order in which they were written, of the boot and above the batch `after` only. A segment
 * is overwritten from its beginning, so the first bytes that are no frame, or the frame of an earlier use, are its end.
 */
export function* readFrames(fd: number, boot: number, after: number): Generator<Frame> {
  let window = Buffer.allocUnsafeSlow(windowBytes)
  let at = 0
  let end = 0
  let position = 0
  const fill = (needed: number): boolean => {
    if (end - at >= needed) return true
    const target = needed <= window.length ? window : Buffer.allocUnsafeSlow(needed)
    end = window.copy(target, 0, at, end)
    at = 0
    window = target
    for (let read = 1; read > 0 && end < window.length; end += read, position += read) read = readSync(fd, window, end, window.length - end, position)
    return end >= needed
  }
  let batch: Batch | undefined
  for (let last = 0; fill(headBytes); ) {
    const length = window.readUInt32BE(at)
    if (length > maxPayload || !fill(headBytes + length)) return
    const bytes = window.subarray(at, at + headBytes + length)
    if (crc32(bytes.subarray(8)) !== bytes.readUInt32BE(4)) return
    const number = bytes.readUInt32BE(12)
    if (bytes.readUInt32BE(8) !== boot || (last > 0 && number !== last + 1)) return
    last = number
    at += bytes.length
    if (number <= after) continue
    batch = decode(bytes.subarray(headBytes), batch)
    yield { batch, bytes: bytes.length }
  }
}

/** Far above what a batch may hold; a length beyond it is no length. */
const maxPayload = 512 * 1024 * 1024
