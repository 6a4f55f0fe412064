// Checks the ledger of a store against its invariants, on a read-only connection, for `sluice ledger verify`.
import { basename } from 'node:path'
import { Accounts } from './accounts.ts'
import { entryColumns } from '../rows/batch.ts'
import { readHead } from '../database/head.ts'
import type { Head } from '../database/head.ts'
import { dueFor, readPrice } from '../database/due.ts'
import type { StoredPrice } from '../database/due.ts'
import type { Breach, InvariantName, Report } from './invariants.ts'
import { entryHash, genesis } from '../journal/journal.ts'
import { Origins, originOf } from '../journal/origins.ts'
import { pastHours } from '../upkeep/past-hours.ts'
import { checkSchema } from '../database/migration.ts'
import { canonicalPath } from '../files/lock.ts'
import { attempt, checkFile, checkIntegers, checkWritten, chargedIn } from './soundness.ts'
import { openForReading, readRows } from '../files/sqlite.ts'
import type { Database, Row, Value } from '../files/sqlite.ts'
import { checkSegments } from './journal-check.ts'
import { checkSpend } from './spend-check.ts'
import { checkTraffic } from './traffic-check.ts'
import { SpendSums } from '../database/spend-sums.ts'
import { surveyBeside } from '../recovery/survey.ts'
import type { Tell } from './tell.ts'
import { readVolume, VolumeError, volumeFolder, volumeOf } from '../journal/volume.ts'
import { daysOf } from '../../window.ts'

/**
 * Receives the progress of a check: a table, how many of its rows were checked, and of how many; without numbers when
 * it begins with a large table.
 */
export type Progress = (
  table: 'file' | 'price' | 'batch' | 'journal' | 'reservation' | 'balance' | 'spend' | 'request' | 'traffic',
  rows?: number,
  of?: number
) => void

/** Makes the progress of a check one that is told in words. */
export function toldOf(tell: Tell): Progress {
  return (table, rows, of) =>
    tell(`checking ${table}`, rows === undefined ? undefined : { done: rows, of, unit: 'rows' })
}

/** How many journal rows are checked between two reports of progress. */
const stride = 8192

/**
 * Reads the file of a store once, and returns every row that breaks one of the {@link invariants} that a file can show.
 * A gateway may be running on it. Pending money is compared only when the balances are up to date: a running gateway
 * writes them about once a second, and a start after a crash brings them up to date.
 * @throws Error when the file is not a store of this version
 */
export function verify(file: string, progress: Progress = () => {}): Breach[] {
  const database = openForReading(file)
  try {
    checkSchema(database, file)
    database.exec('BEGIN')
    const breaches: Breach[] = []
    const report: Report = (invariant, row, message, drift) =>
      void breaches.push({ invariant, row, message, ...(drift !== undefined && { drift_nano: String(drift) }) })
    const head = readHead(database)
    const accounts = new Accounts(report)
    const check = (names: readonly InvariantName[], run: () => void): void => attempt(names, run, report)
    progress('file')
    check(['I17'], () => checkFile(database, report))
    const spend = new SpendSums()
    let sealed: Sealed = { last: 0, whole: false, payers: 0, parts: new Map() }
    check(
      ['I4', 'I5', 'I7', 'I10'],
      () => void (sealed = checkJournal(database, canonicalPath(file), head, { accounts, spend }, report, progress))
    )
    check(['I9'], () => checkHolds(database, head, accounts, report, progress))
    check(['I1', 'I2', 'I6', 'I14'], () => checkBalances(database, head, sealed, accounts, report, progress))
    check(['I19'], () => checkSpend(database, sealed.whole, spend, report))
    check(['I3'], () => checkEnds(database, report))
    check(['I12'], () => checkOutbox(database, report))
    progress('request')
    check(['I8'], () => checkRecords(database, head, sealed, report))
    check(['I11'], () => checkIntegers(database, report))
    check(['I16'], () => progress('request', checkWritten(database, report)))
    const read = (rows: number): void => progress('traffic', rows, head.requests)
    check(['I20'], () => checkTraffic(database, head, Date.now(), report, read))
    check(['I18'], () => {
      checkSegments(database, canonicalPath(file), report, (batches, of) => progress('batch', batches, of))
      for (const { file: path, text } of surveyBeside(file).damage) report('I18', basename(path), text)
    })
    return breaches
  } finally {
    database.close()
  }
}

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

/** Checks I4, I5, I7 and I10, and for sealed rows also I3 and I8. */
function checkJournal(
  database: Database,
  file: string,
  head: Head,
  { accounts, spend }: { accounts: Accounts; spend: SpendSums },
  report: Report,
  progress: Progress
): Sealed {
  const prices = new Map(
    [...readRows(database, 'SELECT * FROM price')].map((row) => [row['version'], readPrice(row['json'])])
  )
  progress('price', prices.size)
  let hash = genesis
  let seq = 0
  let count = 0
  const origins = new Origins([...readRows(database, 'SELECT * FROM journal_origin')].map(originOf), (rows, message) =>
    report('I10', rows, message)
  )
  const check = (name: string, row: Row): void => {
    if (++count % stride === 0) progress('journal', count, head.seq)
    checkAmount(name, row, prices, report)
    post(name, row, head, accounts, report)
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

/** Adds a row to what its balances should be. */
function post(name: string, row: Row, head: Head, accounts: Accounts, report: Report): void {
  const { kind, amount, reserved } = row
  const balances = accounts.of(name, row)
  if (kind === 'cost') {
    if (row['channel'] === null) report('I5', name, 'is a cost that is owed to no channel')
    return
  }
  // An amount that is not an integer counts as 0 here, and is reported as a breach of I11.
  if (Number(row['seq']) > head.balancedSeq || typeof amount !== 'bigint') return
  const beyond = typeof reserved === 'bigint' && amount > reserved ? amount - reserved : 0n
  for (const balance of balances) {
    balance.posted += amount
    balance.excess += beyond
  }
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

const sources: ReadonlySet<unknown> = new Set(['upstream', 'measured', 'partial', 'estimated', 'recovered', 'manual'])

/** Checks I4 and I7 of one row of a journal: its amount by arithmetic of its own, and where its usage is from. */
export function checkAmount(
  name: string,
  row: Row,
  prices: ReadonlyMap<Value | undefined, StoredPrice>,
  report: Report
): void {
  const { kind, amount, source } = row
  if (kind === 'void' && amount !== 0n) report('I4', name, `gives everything back and posts ${amount}`)
  if (kind !== 'settle' && kind !== 'cost') return
  if (!sources.has(source)) report('I7', name, `does not say where its usage is from, but ${source}`)
  if (source === 'manual') return
  const price = prices.get(row['price_version'])
  if (!price) return report('I4', name, `has the price version ${row['price_version']}, which is not stored`)
  const due = dueFor(row['usage_json'], price)
  if (typeof due === 'string') report('I4', name, due)
  else if (amount !== due) report('I4', name, `charges ${amount} where usage and price make ${due}`)
  const { cost, cost_price: version } = row
  if (cost === null && version === null) return
  const own = prices.get(version)
  if (!own) return report('I4', name, `costs ${cost} at the price version ${version}, which is not stored`)
  const owed = dueFor(row['usage_json'], own)
  if (typeof owed === 'bigint' && cost !== owed)
    report('I4', name, `costs ${cost} where usage and the upstream's price make ${owed}`)
}

/** Checks I9. */
function checkHolds(database: Database, head: Head, accounts: Accounts, report: Report, progress: Progress): void {
  let holds = 0
  for (const row of readRows(database, 'SELECT * FROM reservation')) {
    holds++
    const name = `reservation ${row['request_id']}`
    const { amount } = row
    for (const balance of accounts.of(name, row)) if (typeof amount === 'bigint') balance.pending += amount
    if (Number(row['boot_id']) !== head.boot && row['lease_until'] === null)
      report('I9', name, `is open since boot ${row['boot_id']}, and this is ${head.boot}`)
  }
  progress('reservation', holds)
}

/** Checks I1, I2, I6 and I14. */
function checkBalances(
  database: Database,
  head: Head,
  { whole }: Sealed,
  { balances }: Accounts,
  report: Report,
  progress: Progress
): void {
  const upToDate = head.balancedBatch === head.batch
  if (!whole)
    for (const name of ['I1', 'I6', 'I14'] as const)
      report(name, 'balance', 'cannot be compared, as rows of the journal are missing')
  const seen = new Set<string>()
  const past = pastHours(database)
  for (const row of readRows(database, 'SELECT * FROM balance')) {
    const id = `${row['scope']} ${row['window']}`
    const name = `balance ${id}`
    const { limit, posted, pending } = row
    seen.add(id)
    if (daysOf(row['window'] as string) !== undefined) {
      if (posted !== 0n || pending !== 0n)
        report('I1', name, 'has money, which only the hours of a rolling budget have')
      continue
    }
    if (past(id)) continue
    const expected = balances.get(id)
    const { posted: spent, pending: held, excess } = expected ?? { posted: 0n, pending: 0n, excess: 0n }
    // One that refused all it was asked for has no entry, where a book of many nodes made it.
    if (whole && !expected && (posted !== 0n || pending !== 0n))
      report('I14', name, 'is of a window that no entry has the time of')
    if (whole && posted !== spent)
      report('I1', name, `has ${posted} posted where the journal makes ${spent}`, offBy(posted, spent))
    if (upToDate && pending !== held)
      report('I2', name, `has ${pending} pending where open holds make ${held}`, offBy(pending, held))
    if (typeof limit !== 'bigint' || typeof posted !== 'bigint' || typeof pending !== 'bigint') continue
    if (whole && posted + pending > limit + excess)
      report(
        'I6',
        name,
        `has ${posted} posted and ${pending} pending on a limit of ${limit}, and requests cost ${excess} beyond what they held`
      )
  }
  progress('balance', seen.size)
  for (const [name, { posted, pending }] of balances) {
    if (seen.has(name) || past(name)) continue
    if (whole && posted !== 0n)
      report('I1', `balance ${name}`, `is missing; the journal makes ${posted}`, offBy(0n, posted))
    if (upToDate && pending !== 0n)
      report('I2', `balance ${name}`, `is missing; open holds make ${pending}`, offBy(0n, pending))
  }
}

/** How far a balance is from what it should be; undefined when it is no money at all, which is a breach of its own. */
function offBy(one: Value | undefined, other: bigint): bigint | undefined {
  if (typeof one !== 'bigint') return undefined
  return one > other ? one - other : other - one
}

/** Checks I3 for the rows in the database. */
function checkEnds(database: Database, report: Report): void {
  const twice =
    "SELECT request_id, part, count(*) AS ends FROM journal WHERE class = 'terminal' GROUP BY request_id, part HAVING count(*) > 1"
  for (const row of readRows(database, twice))
    report('I3', `journal ${row['request_id']} ${row['part']}`, `ends ${row['ends']} times`)
}

/** Checks I12. */
function checkOutbox(database: Database, report: Report): void {
  for (const row of readRows(database, 'SELECT seq FROM outbox'))
    report('I12', `outbox ${row['seq']}`, 'was not delivered')
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
