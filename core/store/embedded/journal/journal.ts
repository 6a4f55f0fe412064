// The hash chains of the journal and of the audit log: compute the hash of a row.
import { hash } from 'node:crypto'
import { entryColumns, laterColumns } from '../rows/batch.ts'
import type { Value } from '../files/sqlite.ts'

/** Values per entry in a flat array. */
export const entryWidth = entryColumns.length

/** The first of the columns that the journal got later. */
const firstLater = entryWidth - laterColumns.length

/** Different in nearly every row, so it is rendered without comparing it with the last one. */
const idColumn = entryColumns.indexOf('request_id')

/** The `prev_hash` of the first row: 32 zero bytes. */
export const genesis = '0'.repeat(64)

/** The hash before the first row of a chain that a node has in a book, in hexadecimal. No two chains have the same. */
export function genesisOf(node: string, epoch: number): string {
  return hash('sha256', `${epoch}:${node}`)
}

/**
 * The hash of a journal row, in hex: SHA-256 over the previous row's hash in hex, then `seq:boot_id`, then each column
 * of {@link entryColumns} as `:<length>:<text>` (length in UTF-16 units, integers in decimal) or `:~` for null, in
 * UTF-8. A column of {@link laterColumns} is `:<name>:<length>:<text>`, and nothing for null. Lengths and names keep
 * two different rows from having one rendering. `entries` holds the columns from index `at` on.
 */
export function entryHash(previous: string, seq: number, boot: number, entries: readonly Value[], at: number): string {
  let text = `${previous}${seq}:${boot}`
  for (let i = 0; i < entryWidth; i++) {
    const value = entries[at + i]!
    if (i === idColumn) text += render(value)
    else if (value === lastValues[i]) text += lastTexts[i]!
    else {
      lastValues[i] = value
      text += lastTexts[i] = i < firstLater ? render(value) : renderLater(entryColumns[i]!, value)
    }
  }
  return hash('sha256', text)
}

/**
 * The hash of an entry of the audit log, in hexadecimal: SHA-256 over the previous entry's hash (empty before the first
 * one), the entry's number, its time and its JSON, joined by colons.
 */
export function auditHash(previous: string, seq: number, time: number, json: string): string {
  return hash('sha256', `${previous}:${seq}:${time}:${json}`)
}

/** The columns of the row that was hashed last, and their texts. Most of them are the same in the next row. */
const lastValues: Value[] = entryColumns.map(() => null)
const lastTexts: string[] = entryColumns.map((_, i) => (i < firstLater ? render(null) : ''))

function render(value: Value): string {
  if (value === null) return ':~'
  const text = String(value)
  return `:${text.length}:${text}`
}

function renderLater(name: string, value: Value): string {
  return value === null ? '' : `:${name}${render(value)}`
}
