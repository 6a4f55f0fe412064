// Checks that spend is what the journal adds up to, as far as gateways have added it up (I19): each day against the
// journal, and each month against its days.
import type { Report } from '../../../embedded/care/verify/invariants.ts'
import type { Progress } from '../../../embedded/care/verify/checking.ts'
import { smaller } from '../../../embedded/balance/cell.ts'
import { readObject } from '../../../embedded/database/due.ts'
import { SpendSums } from '../../../embedded/database/spend-sums.ts'
import { mostOf, sumColumns } from '../../../embedded/database/spend-table.ts'
import type { Row, Value } from '../../../embedded/files/sqlite.ts'
import { entryColumns } from '../../../embedded/rows/batch.ts'
import { day as dayLength } from '../../../window.ts'
import type { Transaction } from '../../database/lane.ts'
import { rowsOf as spendRowsOf, spans } from '../../spend/spend-book.ts'
import { rowsOf, stride } from './rows.ts'

/** The sums of one row, by column; units of other classes by the name of their class. */
type Sums = Map<string, bigint>

/** What a row of a span is told apart by. */
const place = ['spender', 'model', 'channel', 'price', 'cost_price']
const [days] = spans

/** Checks I19. In memory are the sums of one day. */
export async function checkSpend(transaction: Transaction, report: Report, progress: Progress): Promise<void> {
  const { rows } = await transaction.query<{ day: number }>(
    `select day from sluice.spend_day union select to_date(substr(c.relname, 9), 'YYYY_MM_DD') - date '1970-01-01'
       from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'sluice.journal'::regclass
     order by day`
  )
  const { rows: all } = await transaction.query<{ count: bigint }>(
    'select coalesce(sum(seq), 0)::bigint as count from sluice.spend_seen'
  )
  let count = 0
  progress('spend', count)
  for (const { day } of rows) {
    count += await checkDay(transaction, day, report, (added) =>
      progress('spend', count + added, Number(all[0]!.count))
    )
  }
  await checkMonths(transaction, report)
  progress('spend', count)
}

/** Compares a day. Returns how many entries it has. */
async function checkDay(
  transaction: Transaction,
  day: number,
  report: Report,
  each: (entries: number) => void
): Promise<number> {
  const columns = entryColumns.map((name) => (name === 'ts_ms' ? 'j.ts_ms::float8 as ts_ms' : `j.${name}`)).join(', ')
  const journal = new SpendSums()
  let count = 0
  for await (const row of rowsOf(
    transaction,
    `select ${columns} from sluice.journal j join sluice.spend_seen s using (node, epoch)
     where j.day = date '1970-01-01' + ${day} and j.seq <= s.seq`
  )) {
    journal.add(
      entryColumns.map((name) => row[name] as Value),
      0
    )
    if (++count % stride === 0) each(count)
  }
  const expected = new Map(spendRowsOf(days, journal.take()).map((row) => [placeOf(row as Row), sumsOf(row as Row)]))
  const since = new Date(day * dayLength).toISOString().slice(0, 10)
  for await (const row of rowsOf(transaction, `select * from sluice.spend_day where day = ${day}`)) {
    const name = placeOf(row)
    compare(since, name, sumsOf(row), expected.get(name) ?? new Map(), 'the journal makes', report)
    expected.delete(name)
  }
  for (const [name, sums] of expected) compare(since, name, new Map(), sums, 'the journal makes', report)
  return count
}

/** Compares months with their days: rows of both, in the order of what they are of. */
async function checkMonths(transaction: Transaction, report: Report): Promise<void> {
  const columns = [...place, ...sumColumns, 'units'].join(', ')
  const month = `extract(year from date '1970-01-01' + day)::int * 12 + extract(month from date '1970-01-01' + day)::int - 1`
  let at: { since: string; name: string; found: Sums; expected: Sums } | undefined
  const end = (): void => {
    if (at) compare(at.since, at.name, at.found, at.expected, 'its days make', report)
  }
  for await (const row of rowsOf(
    transaction,
    `select * from (select true as stored, month, ${columns} from sluice.spend_month
       union all select false, ${month}, ${columns} from sluice.spend_day) rows
     order by month, ${place.join(', ')}`
  )) {
    const number = Number(row['month'])
    const since = new Date(Date.UTC(Math.floor(number / 12), number % 12)).toISOString().slice(0, 7)
    const name = placeOf(row)
    if (at?.since !== since || at.name !== name) {
      end()
      at = { since, name, found: new Map(), expected: new Map() }
    }
    const sums = row['stored'] ? at.found : at.expected
    for (const [column, number] of sumsOf(row)) {
      const sum = (sums.get(column) ?? 0n) + number
      sums.set(column, smaller(sum, mostOf(column) ?? sum))
    }
  }
  end()
}

function placeOf(row: Row): string {
  return place.map((name) => row[name] || '-').join(' ')
}

function sumsOf(row: Row): Sums {
  const units = row['units'] as unknown
  const others = typeof units === 'string' ? readObject(units) : (units as Record<string, unknown> | null)
  // What was changed by hand may be no whole number, which is none that the journal makes.
  const whole = (number: unknown): bigint => (Number.isSafeInteger(number) ? BigInt(number as number) : -1n)
  const sums: Sums = new Map(Object.entries(others ?? {}).map(([name, number]) => [name, whole(number)]))
  for (const name of sumColumns) sums.set(name, BigInt(row[name] as string | number | bigint))
  return sums
}

function compare(since: string, name: string, found: Sums, expected: Sums, whose: string, report: Report): void {
  const wrong = [...new Set([...found.keys(), ...expected.keys()])].flatMap((sum) => {
    const [has, due] = [found.get(sum) ?? 0n, expected.get(sum) ?? 0n]
    return has === due ? [] : [`${sum} ${has} where ${whose} ${due}`]
  })
  if (wrong.length > 0) report('I19', `spend ${since} ${name}`, `has ${wrong.join(', ')}`)
}
