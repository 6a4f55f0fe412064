// Checks the book of a cluster against the invariants of a ledger, at one moment, while gateways are running.
import { Accounts } from '../../../embedded/care/verify/accounts.ts'
import type { Breach, InvariantName, Report } from '../../../embedded/care/verify/invariants.ts'
import { checkAmount } from '../../../embedded/care/verify/entry-check.ts'
import type { Progress } from '../../../embedded/care/verify/checking.ts'
import { readObject, readPrice } from '../../../embedded/database/due.ts'
import type { StoredPrice } from '../../../embedded/database/due.ts'
import type { Row, Value } from '../../../embedded/files/sqlite.ts'
import { entryHash, genesis, genesisOf } from '../../../embedded/journal/journal.ts'
import { originOf, Origins } from '../../../embedded/journal/origins.ts'
import { entryColumns } from '../../../embedded/rows/batch.ts'
import { hoursKept, isBefore } from '../../../embedded/upkeep/past-hours.ts'
import { day, daysOf } from '../../../window.ts'
import type { Lane, Transaction } from '../../database/lane.ts'
import { checkAnchors } from '../journal/anchors.ts'
import { correctionClass, isEstimate, lostClass } from '../journal/estimates.ts'
import type { Estimate } from '../journal/estimates.ts'
import { checkAudit } from './audit.ts'
import { differingIn, tellDiffering } from './charges.ts'
import type { Differing } from './charges.ts'
import { checkRecords } from './records.ts'
import { rowsOf, stride } from './rows.ts'
import { checkSpend } from './spend.ts'

/** How long each statement may take, in milliseconds. Sorting a large journal takes minutes. */
const deadline = 600_000

/** The invariants that a book is checked against. The others are about files alone, or left to the tests. */
export const ofBook: ReadonlySet<InvariantName> = new Set([
  'I1',
  'I2',
  'I3',
  'I4',
  'I5',
  'I6',
  'I7',
  'I8',
  'I9',
  'I10',
  'I11',
  'I14',
  'I16',
  'I19',
  'I20'
])

/** The end of a chain, as it is stored. */
interface Head {
  readonly node: string
  readonly epoch: number
  readonly seq: number
  readonly hash: string
  /** Whether the chain goes on from that of the epoch before. */
  readonly continues: boolean
}

/**
 * Reads the book once, and returns every row that breaks an invariant of {@link ofBook}. Everything is read in one
 * transaction, so that no batch is seen halfway; only records that differ from the journal are looked at again behind
 * it.
 * @throws DatabaseFault
 */
export async function verifyBook(lane: Lane, progress: Progress = () => {}): Promise<Breach[]> {
  const breaches: Breach[] = []
  const report: Report = (invariant, row, message, drift) =>
    void breaches.push({ invariant, row, message, ...(drift !== undefined && { drift_nano: String(drift) }) })
  let differing: readonly Differing[] = []
  await lane.transaction(
    async (transaction) => {
      await transaction.query('set transaction isolation level repeatable read, read only')
      const accounts = new Accounts(report)
      await checkJournal(transaction, accounts, report, progress)
      await checkAnchors((query) => rowsOf(transaction, query), transaction, report)
      await checkHolds(transaction, accounts, report, progress)
      await checkBalances(transaction, accounts, report, progress)
      await checkSpend(transaction, report, progress)
      await checkAudit(transaction, report)
      progress('request')
      differing = await differingIn(transaction)
      await checkRecords(transaction, Date.now(), report, progress)
    },
    { deadline, idle: deadline }
  )
  await tellDiffering(lane, differing, report)
  return breaches
}

/** Checks I4, I5, I7, I10, I11 and I14. I3 is the primary key of the journal, and {@link checkHolds} looks for it. */
async function checkJournal(
  transaction: Transaction,
  accounts: Accounts,
  report: Report,
  progress: Progress
): Promise<void> {
  const { rows: prices } = await transaction.query<{ version: string; json: string }>(
    'select version, json from sluice.price'
  )
  for (const { version, json } of prices)
    if (!hasTextsOnly(readObject(json))) report('I11', `price ${version}`, 'has money that is no decimal string')
  const priceOf = new Map<Value | undefined, StoredPrice>(prices.map(({ version, json }) => [version, readPrice(json)]))
  progress('price', prices.length)
  const heads = await headsOf(transaction)
  const all = [...heads.values()]
  const own = all.reduce((sum, { seq, continues }) => sum + (continues ? 0 : seq), 0)
  const entries = own + Math.max(0, ...all.map(({ seq, continues }) => (continues ? seq : 0)))
  const origins = await originsOf(transaction, report)
  const corrections: { readonly name: string; readonly row: Row }[] = []
  let count = 0
  // PostgreSQL may sort all of it before it gives a row.
  progress('journal', count, entries)
  let chain: Head | undefined
  const end = (): void => {
    if (!chain) return
    const { node, epoch, seq, hash } = chain
    const head = heads.get(`${epoch} ${node}`)
    heads.delete(`${epoch} ${node}`)
    if (head?.seq !== seq || head.hash !== hash)
      report(
        'I10',
        `journal ${node} ${epoch} ${seq}`,
        `is the last row of its chain, which should be row ${head?.seq ?? 0}`
      )
  }
  for await (const row of rowsOf(
    transaction,
    `select *, extract(epoch from day)::bigint * 1000 as day_ms from sluice.journal order by node, epoch, seq`
  )) {
    const [node, epoch, seq] = [row['node'] as string, Number(row['epoch']), Number(row['seq'])]
    const name = `journal ${node} ${epoch} ${seq}`
    if (chain?.node !== node || chain.epoch !== epoch) {
      end()
      chain = beginningOf(node, epoch, heads.get(`${epoch} ${node}`), chain)
    }
    if (seq !== chain.seq + 1) report('I10', name, `follows row ${chain.seq}: rows between are missing`)
    if (hex(row['prev_hash']) !== chain.hash) report('I10', name, 'does not continue the hash of the row before')
    const hash = hex(row['hash'])
    const columns = entryColumns.map((column) => (column === 'ts_ms' ? Number(row[column]) : row[column]!))
    if (entryHash(hex(row['prev_hash']), seq, epoch, columns, 0) !== hash)
      report('I10', name, 'is not what was hashed when it was written')
    chain = { ...chain, seq, hash }
    if (node === origins.node) origins.check.add(seq, columns)
    if (++count % stride === 0) progress('journal', count, entries)
    const time = Number(row['ts_ms'])
    if (Number(row['day_ms']) !== Math.floor(time / day) * day)
      report('I14', name, 'is not in the day of its reservation')
    checkAmount(name, row, priceOf, report)
    if (!Object.values(readObject(row['usage_json']) ?? {}).every(Number.isInteger))
      report('I11', name, 'has a number with a fraction')
    if (row['class'] === correctionClass) corrections.push({ name, row })
    post(name, row, accounts, report)
  }
  end()
  await checkCorrections(transaction, corrections, report)
  origins.check.end()
  progress('journal', count, count)
  for (const { node, epoch, seq } of heads.values())
    if (seq > 0) report('I10', `journal ${node} ${epoch} ${seq}`, 'is missing, with all of its chain')
}

/** Checks I3 of corrections: what is corrected has ended, by estimate. */
async function checkCorrections(
  transaction: Transaction,
  corrections: readonly { readonly name: string; readonly row: Row }[],
  report: Report
): Promise<void> {
  for (const { name, row } of corrections) {
    const { rows } = await transaction.query<Estimate>(
      `select kind, source, channel, exists (select from sluice.journal l
          where l.day = j.day and l.request_id = j.request_id and l.part = j.part and l.class = $4) as lost
        from sluice.journal j
        where day = date '1970-01-01' + $1::int and request_id = $2 and part = $3 and class = 'terminal'`,
      [Math.floor(Number(row['ts_ms']) / day), row['request_id'], row['part'], lostClass]
    )
    if (!rows[0] || !isEstimate(rows[0])) report('I3', name, 'corrects what was not ended by estimate')
  }
}

async function headsOf(transaction: Transaction): Promise<Map<string, Head>> {
  const { rows } = await transaction.query<Omit<Head, 'seq' | 'hash'> & { seq: bigint; hash: Buffer }>(
    'select node, epoch, seq, hash, continues from sluice.journal_chain'
  )
  return new Map(
    rows.map(({ seq, hash, ...head }) => [
      `${head.epoch} ${head.node}`,
      { ...head, seq: Number(seq), hash: hash.toString('hex') }
    ])
  )
}

/** A chain before its first row. `before`: the one whose rows were read before. */
function beginningOf(node: string, epoch: number, head: Head | undefined, before: Head | undefined): Head {
  const continues = head?.continues ?? false
  if (!continues) return { node, epoch, continues, seq: 0, hash: genesisOf(node, epoch) }
  const { seq, hash } = before?.node === node ? before : { seq: 0, hash: genesis }
  return { node, epoch, continues, seq, hash }
}

/** The check of chains that a store had from another book before it was moved into this one, and its node here. */
async function originsOf(transaction: Transaction, report: Report): Promise<{ node?: string; check: Origins }> {
  const { rows } = await transaction.query<Row>('select node, epoch, first, last, hash from sluice.journal_origin')
  const { rows: moved } = await transaction.query<{ node: string }>('select node from sluice.move')
  return { ...moved[0], check: new Origins(rows.map(originOf), (row, message) => report('I10', row, message)) }
}

/** Adds a row to what its balances should be. */
function post(name: string, row: Row, accounts: Accounts, report: Report): void {
  const { kind, amount, reserved } = row as { kind: string; amount: bigint; reserved: bigint }
  const debited = accounts.of(name, row)
  if (kind === 'cost') {
    if (row['channel'] === null) report('I5', name, 'is a cost that is owed to no channel')
    return
  }
  debited.posted += amount
  if (amount > reserved) debited.excess += amount - reserved
}

/** Checks I3 and I9 for the open holds. */
async function checkHolds(
  transaction: Transaction,
  accounts: Accounts,
  report: Report,
  progress: Progress
): Promise<void> {
  let count = 0
  for await (const row of rowsOf(
    transaction,
    `select h.*, h.time as ts_ms, n.name as known, exists (select from sluice.journal j
       where j.day = date '1970-01-01' + (h.time / 86400000)::int and j.request_id = h.request_id and j.part = h.part
         and j.class = 'terminal') as over
     from sluice.hold h left join sluice.node n on n.name = h.node`
  )) {
    const name = `hold ${row['request_id']}`
    accounts.of(name, row).pending += row['amount'] as bigint
    if (row['over'] as unknown) report('I3', name, 'is open, and has an end in the journal')
    if (row['known'] === null) report('I9', name, `belongs to ${row['node']}, which is no node`)
    if (++count % stride === 0) progress('reservation', count)
  }
  progress('reservation', count)
}

/** Checks I1, I2, I6 and I14. */
async function checkBalances(
  transaction: Transaction,
  { balances }: Accounts,
  report: Report,
  progress: Progress
): Promise<void> {
  const past = await pastHours(transaction)
  const seen = new Set<string>()
  for await (const row of rowsOf(
    transaction,
    `select c.scope, c."window", b."limit", b.posted, b.pending, b.sliced, coalesce(s.amount, 0)::bigint as slices
      from sluice.cell c left join sluice.balance b on b.id = c.id
      left join (select cell, sum(amount) as amount from sluice.slice group by cell) s on s.cell = c.id`
  )) {
    const id = `${row['scope']} ${row['window']}`
    const name = `balance ${id}`
    const { limit, posted, pending, sliced, slices } = row as Record<
      'limit' | 'posted' | 'pending' | 'sliced',
      bigint | null
    > & { slices: bigint }
    seen.add(id)
    if (seen.size % stride === 0) progress('balance', seen.size)
    if (posted === null || pending === null) {
      report('I1', name, 'is missing')
      continue
    }
    if (sliced !== slices)
      report('I2', name, `has ${sliced} in slices where those of the nodes make ${slices}`, offBy(sliced!, slices))
    if (daysOf(row['window'] as string) !== undefined) {
      if (posted !== 0n || pending !== 0n)
        report('I1', name, 'has money, which only the hours of a rolling budget have')
      continue
    }
    if (past(id)) continue
    // One that refused all it was asked for has no entry.
    const { posted: spent, pending: held, excess } = balances.get(id) ?? { posted: 0n, pending: 0n, excess: 0n }
    if (posted !== spent)
      report('I1', name, `has ${posted} posted where the journal makes ${spent}`, offBy(posted, spent))
    if (pending !== held)
      report('I2', name, `has ${pending} pending where open holds make ${held}`, offBy(pending, held))
    if (limit !== null && posted + pending > limit + excess)
      report(
        'I6',
        name,
        `has ${posted} posted and ${pending} pending on a limit of ${limit}, and requests cost ${excess} beyond what they held`
      )
  }
  progress('balance', seen.size)
  for (const [id, { posted, pending }] of balances)
    if (!seen.has(id) && !past(id) && (posted !== 0n || pending !== 0n))
      report('I1', `balance ${id}`, `is missing; the journal makes ${posted}, open holds ${pending}`, posted + pending)
}

/** Says of balances whether they are of an hour that a store of one machine does not keep: such a row may be gone. */
async function pastHours(transaction: Transaction): Promise<(name: string) => boolean> {
  const { rows } = await transaction.query<{ scope: string; window: string }>(
    `select scope, "window" from (
       select scope, "window", row_number() over (partition by scope order by hour desc) as place
       from sluice.cell where hour is not null) hours where place = $1`,
    [hoursKept]
  )
  return isBefore(new Map(rows.map(({ scope, window }) => [scope, window])))
}

/** Whether all that a value of JSON has are texts. */
function hasTextsOnly(value: unknown): boolean {
  return typeof value === 'object' && value !== null
    ? Object.values(value).every(hasTextsOnly)
    : typeof value === 'string'
}

function offBy(one: bigint, other: bigint): bigint {
  return one > other ? one - other : other - one
}

function hex(bytes: Value | undefined): string {
  return Buffer.from(bytes as Uint8Array).toString('hex')
}
