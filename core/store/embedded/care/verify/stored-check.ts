// Checks the journal of a store whose database has it, in its tables and in sealed volumes, for `verify`.
import { checkBalances, checkHolds } from './balance-check.ts'
import { stride } from './checking.ts'
import type { Checking } from './checking.ts'
import { checkAmount, post } from './entry-check.ts'
import { checkSpend } from './spend-check.ts'
import { chargedIn, checkRecordIntegers, checkRecordRows } from './soundness.ts'
import { checkTraffic } from './traffic-check.ts'
import { entryHash, genesis } from '../../journal/journal.ts'
import { Origins, originOf } from '../../journal/origins.ts'
import { readVolume, VolumeError, volumeFolder, volumeOf } from '../../journal/volume.ts'
import { entryColumns } from '../../rows/batch.ts'
import { readRows } from '../../files/sqlite.ts'
import type { Database, Row, Value } from '../../files/sqlite.ts'
import type { Head } from '../../database/head.ts'
import { pastHours } from '../../upkeep/past-hours.ts'
import type { Report } from './invariants.ts'

/** What the check of the sealed part of the journal found. */
interface Sealed {
  /** The last sealed row. */
  last: number
  /** Whether all volumes are there. */
  whole: boolean
  /** How many sealed entries have a request record, and a charge in it. */
  payers: number
  /** For sessions whose end is not sealed: the sum of the charges of their sealed parts, by request. */
  parts: Map<Value, bigint>
}

/** Checks I1 to I10, I14 and I19. */
export function checkStored(checking: Checking): void {
  const { database, head, accounts, spend, report, progress, check } = checking
  let sealed: Sealed = { last: 0, whole: false, payers: 0, parts: new Map() }
  check(['I4', 'I5', 'I7', 'I10'], () => void (sealed = checkJournal(checking)))
  check(['I9'], () =>
    progress('reservation', checkHolds(readRows(database, 'SELECT * FROM reservation'), head.boot, accounts, report))
  )
  check(['I1', 'I2', 'I6', 'I14'], () => {
    const rows = readRows(database, 'SELECT * FROM balance')
    const upToDate = head.balancedBatch === head.batch
    const known = { whole: sealed.whole, upToDate, past: pastHours(database) }
    progress('balance', checkBalances(rows, known, accounts, report))
  })
  check(['I19'], () => checkSpend(database, sealed.whole, spend, report))
  check(['I3'], () => checkEnds(database, report))
  progress('request')
  check(['I8'], () => checkRecords(database, head, sealed, report))
}

/** Checks what request records have of I11, I16 and I20. */
export function checkRecordsAlone({ database, head, report, progress, check }: Checking): void {
  check(['I11'], () => checkRecordIntegers(database, report))
  check(['I16'], () => checkRecordRows(database, report))
  const read = (rows: number): void => progress('traffic', rows, head.requests)
  check(['I20'], () => checkTraffic(database, head, Date.now(), report, read))
}

/** Checks I4, I5, I7 and I10, and for sealed rows also I3 and I8. */
function checkJournal({ database, file, head, prices, accounts, spend, report, progress }: Checking): Sealed {
  let hash = genesis
  let seq = 0
  let count = 0
  const origins = new Origins([...readRows(database, 'SELECT * FROM journal_origin')].map(originOf), (rows, message) =>
    report('I10', rows, message)
  )
  const check = (name: string, row: Row): void => {
    if (++count % stride === 0) progress('journal', count, head.seq)
    checkAmount(name, row, prices, report)
    post(name, row, Number(row['seq']) <= head.balancedSeq, accounts, report)
    const columns = entryColumns.map((column) => row[column]!)
    origins.add(Number(row['seq']), columns)
    const { amount, cost } = row
    // What is no integer is a breach of I11.
    if (typeof amount === 'bigint' && (cost === null || typeof cost === 'bigint')) spend.add(columns, 0)
  }
  const sealed: Sealed = { last: 0, whole: true, payers: 0, parts: new Map() }
  const records = recordsOf(database, head, sealed.parts, report)
  for (const row of readRows(database, 'SELECT * FROM volume ORDER BY first')) {
    const volume = volumeOf(row)
    const name = `volume ${volume.first}-${volume.last}`
    if (volume.first !== seq + 1) report('I10', name, `follows row ${seq}: rows between are missing`)
    if (volume.previous !== hash) report('I10', name, 'does not continue the hash of the row before')
    try {
      for (const entry of readVolume(volumeFolder(file), volume)) {
        const entryName = `journal ${entry['seq']}`
        check(entryName, entry)
        if (records(entryName, entry)) sealed.payers++
      }
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error
      report('I10', name, error.message)
      sealed.whole = false
    }
    seq = sealed.last = volume.last
    hash = volume.hash
  }
  for (const row of readRows(
    database,
    `SELECT seq, boot_id, prev_hash, hash, ${entryColumns.join(', ')} FROM journal WHERE seq > ? ORDER BY seq`,
    seq
  )) {
    const name = `journal ${row['seq']}`
    seq++
    if (Number(row['seq']) !== seq) report('I10', name, `follows row ${seq - 1}: rows between are missing`)
    if (hex(row['prev_hash']) !== hash) report('I10', name, 'does not continue the hash of the row before')
    seq = Number(row['seq'])
    const columns = entryColumns.map((column) => row[column]!)
    hash = hex(row['hash'])
    if (entryHash(hex(row['prev_hash']), seq, Number(row['boot_id']), columns, 0) !== hash)
      report('I10', name, 'is not what was hashed when it was written')
    check(name, row)
  }
  origins.end()
  progress('journal', count, count)
  if (seq !== head.seq || hash !== head.hash)
    report('I10', `journal ${seq}`, `is the last row, which should be row ${head.seq} with the hash ${head.hash}`)
  return sealed
}

/**
 * Returns a function that compares a sealed row with its request record (I8), and with ends that are not sealed (I3).
 * The function returns whether the row belongs to a record with a charge.
 */
function recordsOf(
  database: Database,
  head: Head,
  parts: Sealed['parts'],
  report: Report
): (name: string, row: Row) => boolean {
  const oldest = database.prepare('SELECT min(time) AS time FROM request').get()!['time'] as number | null
  const find = database.prepare(`SELECT ${chargedIn('json')} AS cost FROM request WHERE request_id = ?`)
  const again = database.prepare(
    'SELECT seq FROM journal WHERE request_id = ? AND part = ? AND class = ? AND seq > (SELECT max(last) FROM volume)'
  )
  return (name, row) => {
    const [id, part] = [row['request_id']!, row['part']!]
    if (row['class'] !== 'terminal') return false
    const second = again.get(id, part, 'terminal')
    if (second) report('I3', `journal ${second['seq']}`, `ends ${id} again, which ended in row ${row['seq']}`)
    const amount = (parts.get(id) ?? 0n) + (typeof row['amount'] === 'bigint' ? row['amount'] : 0n)
    if (part !== '') {
      // A session ends after all of its parts.
      parts.set(id, amount)
      return false
    }
    parts.delete(id)
    const record = find.get(id)
    if (!record) {
      const time = Number(row['ts_ms'])
      if (oldest !== null && time >= oldest && time > head.unrecorded) report('I8', name, `${id} has no request record`)
      return false
    }
    if (record['cost'] !== String(amount))
      report('I8', `request ${id}`, `says ${record['cost']} where the journal says ${amount}`)
    return record['cost'] !== '0'
  }
}

/** Checks I3 for the rows in the database. */
function checkEnds(database: Database, report: Report): void {
  const twice =
    "SELECT request_id, part, count(*) AS ends FROM journal WHERE class = 'terminal' GROUP BY request_id, part HAVING count(*) > 1"
  for (const row of readRows(database, twice))
    report('I3', `journal ${row['request_id']} ${row['part']}`, `ends ${row['ends']} times`)
}

/** Checks I8 for the rows in the database. */
function checkRecords(database: Database, head: Head, sealed: Sealed, report: Report): void {
  const oldest = 'SELECT min(time) FROM request'
  const unrecorded = `SELECT seq, request_id FROM journal WHERE class = 'terminal' AND part = '' AND ts_ms >= (${oldest}) AND ts_ms > ${head.unrecorded}
    AND request_id NOT IN (SELECT request_id FROM request)`
  for (const row of readRows(database, unrecorded))
    report('I8', `journal ${row['seq']}`, `${row['request_id']} has no request record`)
  // The cost of a session is the sum of its parts. In a condition a column goes before what was named here.
  const differing = `SELECT request.request_id AS id, ${chargedIn('json')} AS said, ended.amount AS own,
      (SELECT sum(amount) FROM journal WHERE journal.request_id = request.request_id AND class = 'terminal' AND seq > ${sealed.last}) AS charged
    FROM request LEFT JOIN journal AS ended
      ON ended.request_id = request.request_id AND ended.part = '' AND ended.class = 'terminal' AND ended.seq > ${sealed.last}
    WHERE said <> coalesce(CAST(charged AS TEXT), '0')`
  let without = 0
  for (const { id, said, own, charged } of readRows(database, differing)) {
    const all = typeof charged === 'bigint' ? charged + (sealed.parts.get(id!) ?? 0n) : undefined
    if (said === String(all)) continue
    if (own === null && sealed.last > 0) without++
    else report('I8', `request ${id}`, `says ${said} where the journal ${own === null ? 'has nothing' : `says ${all}`}`)
  }
  if (sealed.whole && without !== sealed.payers)
    report(
      'I8',
      'request',
      `${without} records whose entries are sealed say what they cost, and ${sealed.payers} of these entries charge for one`
    )
}

function hex(bytes: Value | undefined): string {
  return Buffer.from(bytes as Uint8Array).toString('hex')
}
