// Checks that a store's rows are what was written, by their checksums and counts, and that SQLite finds its own file
// whole.
import { keyColumns, recordColumns, recordValues } from './batch.ts'
import { checksum, recordChecksum } from './checksum.ts'
import { headColumns } from './head.ts'
import type { InvariantName, Report } from './invariants.ts'
import type { RequestRecord } from './requests.ts'
import { readRows } from './sqlite.ts'
import type { Database, Row } from './sqlite.ts'

/** Most findings of SQLite that are told. */
const mostFindings = 100

/** I16. Returns how many request records there are. */
export function checkWritten(database: Database, report: Report): number {
  const [head] = readRows(database, 'SELECT * FROM head')
  if (checksum(headColumns.map((name) => head![name]!)) !== Number(head!['crc']))
    report('I16', 'head', 'is not what was written')
  const records = checkCount(database, 'request', Number(head!['requests']), report)
  checkCount(database, 'key', Number(head!['keys']), report)
  for (const row of readRows(database, 'SELECT * FROM request ORDER BY seq')) {
    if (!isRecord(row)) report('I16', `request ${row['request_id']}`, 'is not what was written')
  }
  for (const row of readRows(database, 'SELECT * FROM key')) {
    if (checksum(keyColumns.map((name) => row[name]!)) !== Number(row['crc']))
      report('I16', `key ${row['name']}`, 'is not what was written')
  }
  return records
}

/** The row has its checksum, and its columns say what its JSON says. */
function isRecord(row: Row): boolean {
  const json = String(row['json'])
  if (recordChecksum(Number(row['seq']), Number(row['written']), json) !== Number(row['crc'])) return false
  const values = recordValues(JSON.parse(json) as RequestRecord, json)
  return recordColumns.every((name, column) => String(values[column]).toWellFormed() === String(row[name]))
}

function checkCount(database: Database, table: 'request' | 'key', written: number, report: Report): number {
  const [row] = readRows(database, `SELECT count(*) AS count FROM ${table}`)
  const count = Number(row!['count'])
  if (count !== written) report('I16', table, `has ${count} rows where ${written} were written`)
  return count
}

/** I17. */
export function checkFile(database: Database, report: Report): void {
  for (const row of readRows(database, `PRAGMA integrity_check(${mostFindings})`)) {
    const [finding] = Object.values(row)
    if (finding !== 'ok') report('I17', 'file', String(finding))
  }
  for (const row of readRows(database, 'PRAGMA foreign_key_check'))
    report('I17', `${row['table']} ${row['rowid'] ?? ''}`, `names a row of ${row['parent']} that there is not`)
}

/** Runs a check; pages that cannot be read end it, and are told. */
export function attempt(invariants: readonly InvariantName[], check: () => void, report: Report): void {
  try {
    check()
  } catch (error) {
    report('I17', 'file', `could not be read to the end for ${invariants.join(', ')}: ${(error as Error).message}`)
  }
}
