// Checksums of the rows that the hash chain does not cover, so that a reader sees whether a row was changed.
import { crc32 } from 'node:zlib'
import type { Value } from './sqlite.ts'

/** The CRC-32 of values as texts joined by line feeds: integers in decimal, bytes in hexadecimal. */
export function checksum(values: readonly Value[]): number {
  return crc32(
    values.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value))).join('\n')
  )
}

/** The CRC-32 of a request record's text (see record-text.ts), seeded with its row number and its time of writing. */
export function recordChecksum(seq: number, written: number, text: string): number {
  return crc32(text, (seq * 31 + written) >>> 0)
}
