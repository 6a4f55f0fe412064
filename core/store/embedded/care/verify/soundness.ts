// Checks for `verify` that rows match their checksums and counts, and that SQLite finds no fault with the file.
import { documentColumns, recordValues, requestColumns } from '../../rows/batch.ts'
import { checksum, recordChecksum } from '../../files/checksum.ts'
import { headColumns } from '../../database/head.ts'
import type { InvariantName, Report } from './invariants.ts'
import { auditHash } from '../../journal/journal.ts'
import { placeIn, withId } from '../../rows/record-place.ts'
import { checkedText, costPlace, recordIn } from '../../rows/record-text.ts'
import type { RecordRow } from '../../rows/record-text.ts'
import { idIn } from '../../rows/uuid.ts'
import { readRows } from '../../files/sqlite.ts'
import type { Database, Row } from '../../files/sqlite.ts'

/** How many findings of SQLite are reported at most. */
const mostFindings = 100

/** Checks I16 of all but the request records, and how many of these there are. Returns that. */
export function checkWritten(database: Database, report: Report): number {
  const [head] = readRows(database, 'SELECT * FROM head')
  if (checksum(headColumns.map((name) => head![name]!)) !== Number(head!['crc']))
    report('I16', 'head', 'is not what was written')
  const records = checkCount(database, 'request', Number(head!['requests']), report)
  checkCount(database, 'document', Number(head!['documents']), report)
  checkAudit(database, head!, report)
  for (const row of readRows(database, 'SELECT * FROM document')) {
    if (checksum(documentColumns.map((name) => row[name]!)) !== Number(row['crc']))
      report('I16', `document ${row['kind']} ${row['id']}`, 'is not what was written')
  }
  return records
}

/** Checks that the audit log is a whole chain, and ends where the head says. */
function checkAudit(database: Database, head: Row, report: Report): void {
  let last = ''
  let seq = 0
  for (const row of readRows(database, 'SELECT * FROM audit ORDER BY seq')) {
    last = auditHash(last, ++seq, Number(row['time']), String(row['json']))
    if (Number(row['seq']) === seq && hexOf(row['hash']) === last) continue
    return report('I16', `audit ${row['seq']}`, 'is not what was written')
  }
  if (seq !== Number(head['audits']) || last !== hexOf(head['audit_hash']))
    report('I16', 'audit', `has ${seq} rows where ${head['audits']} were written`)
}

function hexOf(value: Row[string] | undefined): string {
  return Buffer.from(value as Uint8Array).toString('hex')
}

/** Checks I16 of the request records. */
export function checkRecordRows(database: Database, report: Report): void {
  for (const stored of readRows(database, 'SELECT * FROM request ORDER BY seq')) {
    const row = withId(stored)
    if (!isRecord(row)) report('I16', `request ${row.request_id}`, 'is not what was written')
  }
}

/** Whether a row of the table request, whose id is a text, matches its checksum. */
export function isAsWritten(row: Row & RecordRow): boolean {
  return recordChecksum(Number(row['seq']), Number(row['written']), checkedText(row)) === Number(row['crc'])
}

/**
 * Whether the row matches its checksum, and its columns match its JSON, where that says again what they say. One that
 * has a place has no checksum: what it says is in the journal.
 */
function isRecord(stored: Row & RecordRow): boolean {
  if (placeIn(stored.json)) return true
  if (!isAsWritten(stored)) return false
  if (!stored.json.startsWith('{')) return true
  const values = recordValues(recordIn(stored))
  return requestColumns.every(
    (name, column) => name === 'json' || String(values[column]).toWellFormed() === String(stored[name])
  )
}

function checkCount(database: Database, table: 'request' | 'document', written: number, report: Report): number {
  const [row] = readRows(database, `SELECT count(*) AS count FROM ${table}`)
  const count = Number(row!['count'])
  if (count !== written) report('I16', table, `has ${count} rows where ${written} were written`)
  return count
}

/** Checks I17. */
export function checkFile(database: Database, report: Report): void {
  for (const row of readRows(database, `PRAGMA integrity_check(${mostFindings})`)) {
    const [finding] = Object.values(row)
    if (finding !== 'ok') report('I17', 'file', String(finding))
  }
  for (const row of readRows(database, 'PRAGMA foreign_key_check'))
    report('I17', `${row['table']} ${row['rowid'] ?? ''}`, `names a row of ${row['parent']} that there is not`)
}

/** Runs a check. Pages that cannot be read end it and are reported as a breach of I17. */
export function attempt(invariants: readonly InvariantName[], check: () => void, report: Report): void {
  try {
    check()
  } catch (error) {
    report('I17', 'file', `could not be read to the end for ${invariants.join(', ')}: ${(error as Error).message}`)
  }
}

/** Checks I11 of all but the request records: columns by their storage class, JSON by its types. */
export function checkIntegers(database: Database, report: Report): void {
  const columns = {
    journal: ['amount', 'reserved', 'cost'],
    reservation: ['amount'],
    balance: ['"limit"', 'posted', 'pending']
  }
  for (const [table, names] of Object.entries(columns)) {
    const broken = names.map((name) => `typeof(${name}) NOT IN ('integer', 'null')`).join(' OR ')
    for (const row of readRows(database, `SELECT * FROM ${table} WHERE ${broken}`))
      report('I11', `${table} ${Object.values(row)[0]}`, 'has money that is no integer')
  }
  const broken = {
    journal: `SELECT journal.seq AS id FROM journal, json_each(${sound('usage_json')}) AS units WHERE units.type <> 'integer'`,
    price: `SELECT version AS id FROM price, json_tree(${sound('price.json')}) AS rate WHERE rate.type NOT IN ('text', 'array', 'object')`
  }
  for (const [table, query] of Object.entries(broken)) checkMoney(database, table, query, report)
}

/** Checks I11 of the request records that are in the database. */
export function checkRecordIntegers(database: Database, report: Report): void {
  const broken = `SELECT request_id AS id FROM request
    WHERE substr(json, 1, 1) NOT BETWEEN '0' AND '9' AND typeof(${chargedIn('json')}) <> 'text' OR json_type(${sound('json')}) = 'object' AND json_type(${sound('json')}, '$.cost_usd') IS NOT 'text'`
  checkMoney(database, 'request', broken, report)
}

function checkMoney(database: Database, table: string, broken: string, report: Report): void {
  for (const row of readRows(database, broken))
    report('I11', `${table} ${idIn(row['id'])}`, 'has a number with a fraction, or money that is no decimal string')
}

/** What a request record says that was charged, as SQL. */
export function chargedIn(column: string): string {
  const json = sound(column)
  return `CASE json_type(${json}) WHEN 'array' THEN ${json} ->> ${costPlace} ELSE ${json} ->> 'cost_nano' END`
}

/** A JSON column as an argument of SQL functions, which fail on invalid JSON. */
export function sound(column: string): string {
  return `CASE WHEN json_valid(${column}) THEN ${column} ELSE '{}' END`
}
