// The hash chain of the journal: what a row's hash covers.
import { hash } from 'node:crypto'
import { entryColumns } from './batch.ts'
import type { Value } from './sqlite.ts'

/** Values per entry in a flat array. */
export const entryWidth = entryColumns.length

/** The `prev_hash` of the first row: 32 zero bytes. */
export const genesis = '0'.repeat(64)

/**
 * The hash of a journal row, in hex: SHA-256 over the previous row's hash in hex, then `seq:boot_id`, then each column of
 * {@link entryColumns} as `:<length>:<text>` (length in UTF-16 units, integers in decimal) or `:~` for null, in UTF-8.
 * The lengths keep two different rows from having one rendering. `entries` holds the columns from index `at` on.
 */
export function entryHash(previous: string, seq: number, boot: number, entries: readonly Value[], at: number): string {
  let text = `${previous}${seq}:${boot}`
  for (let i = at; i < at + entryWidth; i++) {
    const value = entries[i]
    if (value === null) text += ':~'
    else {
      const rendered = String(value)
      text += `:${rendered.length}:${rendered}`
    }
  }
  return hash('sha256', text)
}
