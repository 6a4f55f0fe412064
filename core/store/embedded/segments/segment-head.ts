// The head of a segment: which one it is, of which start, and what it continues.
import { crc32 } from 'node:zlib'
import { readNumber, writeNumber } from '../log/frame.ts'

/** Where the frames begin: behind the page of the head. */
export const framesFrom = 4096

/** What stands in a head. Histories are hexadecimal. */
export interface SegmentHead {
  readonly ordinal: number
  /** The start that made the segment, and its history. */
  readonly boot: number
  readonly history: string
  /** The history that it continues, which is empty before the first segment, and the last batch before its own. */
  readonly previous: string
  readonly after: number
}

const mark = Buffer.from('sluicesg')
const format = 1
const layout = {
  mark: 0,
  format: 8,
  ordinal: 12,
  boot: 20,
  after: 28,
  history: 36,
  previous: 44,
  checksum: 52,
  bytes: 56
}
const none = '0'.repeat(16)

/** Encodes the first page of a segment. */
export function encodeHead({ ordinal, boot, history, previous, after }: SegmentHead): Buffer {
  const bytes = Buffer.alloc(framesFrom)
  mark.copy(bytes, layout.mark)
  bytes.writeUInt32BE(format, layout.format)
  writeNumber(bytes, ordinal, layout.ordinal)
  writeNumber(bytes, boot, layout.boot)
  writeNumber(bytes, after, layout.after)
  bytes.write(history, layout.history, 'hex')
  bytes.write(previous || none, layout.previous, 'hex')
  bytes.writeUInt32BE(crc32(bytes.subarray(0, layout.checksum)), layout.checksum)
  return bytes
}

/**
 * Decodes the beginning of a segment; undefined when it is no head, or a damaged one.
 * @throws Error when a version with another format wrote it
 */
export function decodeHead(bytes: Buffer): SegmentHead | undefined {
  if (bytes.length < layout.bytes || mark.compare(bytes, layout.mark, layout.format) !== 0) return undefined
  if (crc32(bytes.subarray(0, layout.checksum)) !== bytes.readUInt32BE(layout.checksum)) return undefined
  const found = bytes.readUInt32BE(layout.format)
  if (found !== format)
    throw new Error(`the journal has format ${found}, which this program does not know: start the one that wrote it`)
  const previous = bytes.toString('hex', layout.previous, layout.checksum)
  return {
    ordinal: readNumber(bytes, layout.ordinal),
    boot: readNumber(bytes, layout.boot),
    after: readNumber(bytes, layout.after),
    history: bytes.toString('hex', layout.history, layout.previous),
    previous: previous === none ? '' : previous
  }
}
