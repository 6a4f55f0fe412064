// Checks a store's book against its invariants, on a read-only connection: what `sluice ledger verify` runs.
import { entryColumns } from './batch.ts'
import { readHead } from './committer.ts'
import { entryHash, genesis } from './journal.ts'
import { checkSchema } from './schema.ts'
import { openForReading } from './sqlite.ts'
import type { Database, Value } from './sqlite.ts'
import { windowsOf } from './window.ts'
import type { Period } from './window.ts'

/** One row that breaks an invariant. */
export interface Breach {
  invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I8' | 'I9' | 'I10' | 'I11'
  /** Table and row: `journal 17`, `balance project:acme/web 2026-11`. */
  row: string
  /** What is, and what should be. */
  message: string
}

type Row = Record<string, Value>

/** Told how far a check is: a table, and how many of its rows have been looked at; undefined when it begins with one that takes long. */
export type Progress = (table: 'price' | 'journal' | 'reservation' | 'balance' | 'request', rows?: number) => void

/** Rows of the journal between two reports of progress. */
const stride = 8192

/**
 * Reads a store's file once, beside a gateway that may be running on it, and returns every row that breaks an invariant:
 * - I1 the journal adds up to what is posted; I2 the open holds to what is pending (where the balances are up to date: a
 *   running gateway writes them about once a second, and a start after a crash brings them up to date)
 * - I3 a request part ends at most once; I4 an amount is its usage at its price
 * - I8 ends and request records belong together one to one, as far back as records are kept
 * - I9 no hold of an earlier boot is open; I10 the hash chain is whole; I11 money is integers
 * @throws Error when the file is no store of this version
 */
export function verify(file: string, progress: Progress = () => {}): Breach[] {
  const database = openForReading(file)
  try {
    checkSchema(database, file)
    database.exec('BEGIN')
    const breaches: Breach[] = []
    const report = (invariant: Breach['invariant'], row: string, message: string): void => void breaches.push({ invariant, row, message })
    const head = readHead(database)
    const posted = checkJournal(database, head, report, progress)
    checkBalances(database, head, posted, report, progress)
    checkEnds(database, report)
    progress('request')
    checkRecords(database, report)
    checkIntegers(database, report)
    progress('request', Number(database.prepare('SELECT count(*) AS rows FROM request').get()!['rows']))
    return breaches
  } finally {
    database.close()
  }
}

type Report = (invariant: Breach['invariant'], row: string, message: string) => void

/** I4 and I10; returns what the journal posted, by balance. */
function checkJournal(database: Database, head: ReturnType<typeof readHead>, report: Report, progress: Progress): Map<string, bigint> {
  const prices = new Map([...rows(database, 'SELECT * FROM price')].map((row) => [row['version'], tiersOf(row['json']!)]))
  progress('price', prices.size)
  const posted = new Map<string, bigint>()
  let hash = genesis
  let seq = 0
  let count = 0
  for (const row of rows(database, `SELECT seq, boot_id, prev_hash, hash, ${entryColumns.join(', ')} FROM journal ORDER BY seq`)) {
    const name = `journal ${row['seq']}`
    if (++count % stride === 0) progress('journal', count)
    seq++
    if (Number(row['seq']) !== seq) report('I10', name, `follows row ${seq - 1}: rows between are missing`)
    if (hex(row['prev_hash']) !== hash) report('I10', name, 'does not continue the hash of the row before')
    seq = Number(row['seq'])
    const columns = entryColumns.map((column) => row[column]!)
    hash = hex(row['hash'])
    if (entryHash(hex(row['prev_hash']), seq, Number(row['boot_id']), columns, 0) !== hash) report('I10', name, 'is not what was hashed when it was written')
    checkAmount(row, prices, report)
    if (row['kind'] !== 'cost' && seq <= head.balancedSeq) for (const balance of balancesOf(row)) add(posted, balance, row['amount'])
  }
  progress('journal', count)
  if (seq !== head.seq || hash !== head.hash) report('I10', `journal ${seq}`, `is the last row, which should be row ${head.seq} with the hash ${head.hash}`)
  return posted
}

function checkAmount(row: Row, prices: Map<Value | undefined, StoredTier[]>, report: Report): void {
  const name = `journal ${row['seq']}`
  const amount = row['amount'] as bigint
  if (row['kind'] === 'void' && amount !== 0n) report('I4', name, `gives everything back and posts ${amount}`)
  if (row['kind'] !== 'settle' || row['source'] === 'manual') return
  const tiers = prices.get(row['price_version'])
  if (!tiers) return report('I4', name, `has the price version ${row['price_version']}, which is not stored`)
  const usage = parse(row['usage_json'])
  if (!usage) return report('I4', name, 'has no usage')
  for (const [units, count] of Object.entries(usage)) {
    if (!Number.isSafeInteger(count) || (count as number) < 0) return report('I4', name, `counts ${count} ${units}`)
  }
  // Apart from costOf on purpose: the longest tier first, then twice the exact fraction with the half that rounds up.
  const counts = Object.entries(usage as Record<string, number>).map(([units, count]) => [units, BigInt(count)] as const)
  const length = counts.reduce((sum, [units, count]) => (ofPrompt.has(units) ? sum + count : sum), 0n)
  const rates = tiers.findLast(({ above }) => length > above)?.rates
  const millionths = counts.reduce((sum, [units, count]) => sum + count * (rates?.get(units) ?? 0n), 0n)
  const due = (2n * millionths + 1_000_000n) / 2_000_000n
  if (amount !== due) report('I4', name, `charges ${amount} where usage and price make ${due}`)
}

/** I1, I2 and I9. */
function checkBalances(database: Database, head: ReturnType<typeof readHead>, posted: Map<string, bigint>, report: Report, progress: Progress): void {
  const pending = new Map<string, bigint>()
  let holds = 0
  for (const row of rows(database, 'SELECT * FROM reservation')) {
    holds++
    for (const balance of balancesOf(row)) add(pending, balance, row['amount'])
    if (Number(row['boot_id']) !== head.boot && row['lease_until'] === null) {
      report('I9', `reservation ${row['request_id']}`, `is open since boot ${row['boot_id']}, and this is ${head.boot}`)
    }
  }
  progress('reservation', holds)
  const upToDate = head.balancedBatch === head.batch
  let balances = 0
  for (const row of rows(database, 'SELECT * FROM balance')) {
    balances++
    const name = `${row['scope']} ${row['window']}`
    const spent = posted.get(name) ?? 0n
    const held = pending.get(name) ?? 0n
    posted.delete(name)
    pending.delete(name)
    if (row['posted'] !== spent) report('I1', `balance ${name}`, `has ${row['posted']} posted where the journal makes ${spent}`)
    if (upToDate && row['pending'] !== held) report('I2', `balance ${name}`, `has ${row['pending']} pending where open holds make ${held}`)
  }
  progress('balance', balances)
  for (const [name, spent] of posted) if (spent !== 0n) report('I1', `balance ${name}`, `is missing; the journal makes ${spent}`)
  if (upToDate) for (const [name, held] of pending) if (held !== 0n) report('I2', `balance ${name}`, `is missing; open holds make ${held}`)
}

/** I3. */
function checkEnds(database: Database, report: Report): void {
  const twice = "SELECT request_id, part, count(*) AS ends FROM journal WHERE class = 'terminal' GROUP BY request_id, part HAVING count(*) > 1"
  for (const row of rows(database, twice)) report('I3', `journal ${row['request_id']} ${row['part']}`, `ends ${row['ends']} times`)
}

/** I8. */
function checkRecords(database: Database, report: Report): void {
  const oldest = 'SELECT min(time) FROM request'
  const unrecorded = `SELECT seq, request_id FROM journal WHERE class = 'terminal' AND part = '' AND ts_ms >= (${oldest})
    AND request_id NOT IN (SELECT request_id FROM request)`
  for (const row of rows(database, unrecorded)) report('I8', `journal ${row['seq']}`, `${row['request_id']} has no request record`)
  const differing = `SELECT request.request_id, ${sound('json')} ->> 'cost_nano' AS cost, amount FROM request
    LEFT JOIN journal ON journal.request_id = request.request_id AND part = '' AND class = 'terminal'
    WHERE cost <> coalesce(CAST(amount AS TEXT), '0')`
  for (const row of rows(database, differing)) {
    report('I8', `request ${row['request_id']}`, `says ${row['cost']} where the journal ${row['amount'] === null ? 'has nothing' : `says ${row['amount']}`}`)
  }
}

/** I11: columns by their storage class, JSON by its types. */
function checkIntegers(database: Database, report: Report): void {
  const columns = {
    journal: ['amount', 'reserved'], reservation: ['amount'], balance: ['"limit"', 'posted', 'pending'], key: ['budget_limit']
  }
  for (const [table, names] of Object.entries(columns)) {
    const broken = names.map((name) => `typeof(${name}) NOT IN ('integer', 'null')`).join(' OR ')
    for (const row of rows(database, `SELECT * FROM ${table} WHERE ${broken}`)) report('I11', `${table} ${Object.values(row)[0]}`, 'has money that is no integer')
  }
  const broken = {
    journal: `SELECT journal.seq AS id FROM journal, json_each(${sound('usage_json')}) AS units WHERE units.type <> 'integer'`,
    request: `SELECT request_id AS id FROM request
      WHERE json_type(${sound('json')}, '$.cost_nano') IS NOT 'text' OR json_type(${sound('json')}, '$.cost_usd') IS NOT 'text'`,
    price: `SELECT version AS id FROM price, json_tree(${sound('price.json')}) AS rate WHERE rate.type NOT IN ('text', 'array', 'object')`
  }
  for (const [table, query] of Object.entries(broken)) {
    for (const row of rows(database, query)) report('I11', `${table} ${row['id']}`, 'has a number with a fraction, or money that is no decimal string')
  }
}

/** A JSON column for the functions of SQL, which do not take what is no JSON. */
function sound(column: string): string {
  return `CASE WHEN json_valid(${column}) THEN ${column} ELSE '{}' END`
}

function* rows(database: Database, query: string): Generator<Row> {
  const statement = database.prepare(query)
  statement.setReadBigInts(true)
  yield* statement.iterate() as Iterable<Row>
}

/** The balances that a journal row or a hold counts in. */
function balancesOf(row: Row): string[] {
  const time = Number(row['ts_ms'])
  const scopes = Object.entries(parse(row['scopes']) ?? {})
  return scopes.flatMap(([scope, per]) => windowsOf(per as Period, time).map((window) => `${scope} ${window}`))
}

/** Rates for prompts of more than that many tokens. */
interface StoredTier {
  above: bigint
  rates: Map<string, bigint>
}

const ofPrompt: ReadonlySet<string> = new Set(['input', 'cached_input', 'cache_write', 'audio_input', 'image_input'])

/** A stored price, shortest prompts first. */
function tiersOf(json: Value): StoredTier[] {
  const price = parse(json) ?? {}
  const longer = (Array.isArray(price['tiers']) ? price['tiers'] : []).flatMap((tier: unknown) => {
    const rates = ratesOf(Object(tier))
    const above = rates.get('above')
    return above === undefined ? [] : [{ above, rates }]
  })
  return [{ above: -1n, rates: ratesOf(price) }, ...longer]
}

function ratesOf(rates: object): Map<string, bigint> {
  const sound = Object.entries(rates).filter(([, rate]) => /^\d+$/.test(String(rate)))
  return new Map(sound.map(([name, rate]) => [name, BigInt(String(rate))]))
}

/** The object of a JSON column; undefined when somebody made it something else. */
function parse(json: Value | undefined): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(String(json))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Amounts that are no integers count as nothing here; I11 names them. */
function add(sums: Map<string, bigint>, name: string, amount: Value | undefined): void {
  if (typeof amount === 'bigint') sums.set(name, (sums.get(name) ?? 0n) + amount)
}

function hex(bytes: Value | undefined): string {
  return Buffer.from(bytes as Uint8Array).toString('hex')
}
