// What is left of a damaged volume: the blocks of it that can be unpacked, wherever they begin, without its footer.
import { readFileSync } from 'node:fs'
import { zstdDecompressSync } from 'node:zlib'

const mark = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
const checksumBytes = 4

/** Yields the blocks that are what was written, in their order: each has a checksum. One at a time is in memory. */
export function* blocksLeftIn(path: string): Generator<Buffer> {
  const bytes = readFileSync(path)
  for (let at = bytes.indexOf(mark); at !== -1;) {
    const end = endOfFrame(bytes, at)
    const block = end === undefined ? undefined : unpacked(bytes.subarray(at, end))
    if (block) yield block
    at = bytes.indexOf(mark, block ? end! : at + 1)
  }
}

function unpacked(bytes: Buffer): Buffer | undefined {
  try {
    return zstdDecompressSync(bytes)
  } catch {
    return undefined
  }
}

/** Where a frame of zstd ends, by the lengths in it (RFC 8878, section 3.1.1); undefined when it is cut off. */
function endOfFrame(bytes: Buffer, from: number): number | undefined {
  const descriptor = bytes[from + mark.length]
  if (descriptor === undefined) return undefined
  const single = (descriptor & 0x20) !== 0
  const size = [single ? 1 : 0, 2, 4, 8][descriptor >> 6]!
  const dictionary = [0, 1, 2, 4][descriptor & 3]!
  let at = from + mark.length + 1 + (single ? 0 : 1) + dictionary + size
  for (let last = false; !last;) {
    if (at + 3 > bytes.length) return undefined
    const header = bytes.readUIntLE(at, 3)
    last = (header & 1) !== 0
    // A block of one byte that is repeated has only that byte.
    at += 3 + (((header >> 1) & 3) === 1 ? 1 : header >> 3)
  }
  if ((descriptor & 4) !== 0) at += checksumBytes
  return at <= bytes.length ? at : undefined
}
