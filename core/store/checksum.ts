// Checksums of rows that no hash chain covers: whoever reads one again sees whether it is what was written.
import { crc32 } from 'node:zlib'
import type { Value } from './sqlite.ts'

/** CRC-32 of values as text with line ends between them; integers in decimal, bytes in hex. */
export function checksum(values: readonly Value[]): number {
  return crc32(
    values.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value))).join('\n')
  )
}

/** CRC-32 of a request record, from its row number and time of writing on. The other columns are what its JSON says. */
export function recordChecksum(seq: number, written: number, json: string): number {
  return crc32(json, (seq * 31 + written) >>> 0)
}
