// The spend of all gateways: adds the journal up by day and month, each row once, and answers queries of the sums.
import { hash } from 'node:crypto'
import { smaller } from '../../embedded/balance/cell.ts'
import { entryColumns } from '../../embedded/rows/batch.ts'
import { mostOf, sumColumns } from '../../embedded/database/spend-table.ts'
import { commonUnits, monthOf, mostCost, mostSummed, spenderOf, SpendSums } from '../../embedded/database/spend-sums.ts'
import type { SpendCell } from '../../embedded/database/spend-sums.ts'
import type { Value } from '../../embedded/files/sqlite.ts'
import { steadyNow } from '../../../watchdog/steady-time.ts'
import type { SpendPage, SpendQuery } from '../../spend.ts'
import type { Database } from '../database/database.ts'
import type { Transaction } from '../database/lane.ts'
import { locks } from '../database/locks.ts'
import { DatabaseFault } from '../database/fault.ts'
import { plain } from '../database/text.ts'
import { correctionClass } from '../money/journal/estimates.ts'
import { correctEnded } from '../requests/stand-ins.ts'
import { TrafficSums } from '../requests/traffic-sums.ts'
import { unavailable, unfound } from '../unavailable.ts'
import { querySpend } from './spend-query.ts'

/** How many rows of the journal one transaction adds up. */
const slice = 2000
/** The most slices that one query adds up before it answers. */
const mostSlices = 500

/** One of the tables of sums. */
interface Span {
  readonly name: 'day' | 'month'
  of(day: number): number
}

/** The tables of sums: by day, and by month. */
export const spans = [
  { name: 'day', of: (day) => day },
  { name: 'month', of: monthOf }
] as const satisfies readonly Span[]

/** The spend as one gateway has it. */
export class SpendBook {
  readonly #database: Pick<Database, 'changes' | 'searches'>
  readonly #now: () => number
  /** What traffic changes by with the records that are corrected here. */
  readonly #traffic = new TrafficSums()
  #gathering: Promise<boolean> | undefined

  /** `now`: Unix milliseconds. */
  constructor(database: Pick<Database, 'changes' | 'searches'>, now: () => number = steadyNow) {
    this.#database = database
    this.#now = now
  }

  /**
   * Adds up what was charged until now, and answers a query.
   * @throws GatewayError `billing_unavailable` while the database does not answer
   */
  async query(query: SpendQuery): Promise<SpendPage> {
    for (let i = 0; i < mostSlices && (await this.gather().catch(failed)); i++);
    return querySpend(this.#database.searches, query).catch(unfound)
  }

  /**
   * Adds up some rows of the journal. Returns whether there may be more. Where somebody has ended a request for
   * another, or corrected that, its record says so from the same commit on: whoever wrote the row may have been killed
   * before it could tell.
   */
  gather(): Promise<boolean> {
    return (this.#gathering ??= this.#gather().finally(() => (this.#gathering = undefined)))
  }

  async #gather(): Promise<boolean> {
    const { changes } = this.#database
    try {
      return await changes.transaction((transaction) =>
        gatherSlice(transaction, (ids) => correctEnded(transaction, ids, this.#traffic, this.#now()))
      )
    } catch (error) {
      this.#traffic.begin()
      if (!(error instanceof DatabaseFault) || !error.ofContent) throw error
      // A record that the database refuses keeps no sum from anybody.
      return changes.transaction((transaction) => gatherSlice(transaction, () => Promise.resolve()))
    }
  }
}

function failed(cause: unknown): never {
  throw unavailable(cause)
}

interface ChainRow extends Record<string, unknown> {
  readonly node: string
  readonly epoch: number
  readonly seq: bigint
}

async function gatherSlice(
  transaction: Transaction,
  correct: (requestIds: readonly string[]) => Promise<void>
): Promise<boolean> {
  await transaction.query('select pg_advisory_xact_lock($1)', [locks.spend])
  // The version before adds up under this lock, and not under the other. The next one need not take it any more.
  await transaction.query('select pg_advisory_xact_lock_shared($1)', [locks.records])
  const columns = entryColumns.map((name) => (name === 'ts_ms' ? 'j.ts_ms::float8 as ts_ms' : `j.${name}`)).join(', ')
  const { rows } = await transaction.query<ChainRow>(
    `select c.node, c.epoch, j.seq, ${columns} from (
       select c.node, c.epoch, coalesce(s.seq, 0) as seen from sluice.journal_chain c
       left join sluice.spend_seen s using (node, epoch) where c.seq > coalesce(s.seq, 0) limit ${slice}
     ) c cross join lateral (
       select * from sluice.journal j where j.node = c.node and j.epoch = c.epoch and j.seq > c.seen
       order by j.seq limit ${slice}
     ) j limit ${slice}`
  )
  if (rows.length === 0) return false
  const ended = rows.filter((row) => row['class'] === correctionClass || row['source'] === 'recovered')
  if (ended.length > 0) await correct([...new Set(ended.map((row) => row['request_id'] as string))])
  const sums = new SpendSums()
  const seen = new Map<string, ChainRow>()
  for (const row of rows) {
    sums.add(
      entryColumns.map((name) => row[name] as Value),
      0
    )
    seen.set(`${row.epoch} ${row.node}`, row)
  }
  const cells = sums.take()
  await transaction.query(
    writeAll,
    [
      spendersOf(cells),
      ...spans.map((span) => rowsOf(span, cells)),
      [...seen.values()].map(({ node, epoch, seq }) => ({ node, epoch, seq: String(seq) }))
    ].map((rows) => JSON.stringify(rows))
  )
  return rows.length === slice
}

function spendersOf(cells: readonly SpendCell[]): Record<string, unknown>[] {
  const spenders = new Map(
    cells.map(({ place }) => {
      const { tenant, project, member, key, tags } = spenderOf(place)
      return [spenderId(place), { id: spenderId(place), tenant, project, member, key, tags: searchable(tags) }]
    })
  )
  return [...spenders.values()]
}

/** Tags in which PostgreSQL can look: in its JSON too there is no NUL and no half of a surrogate pair. */
function searchable(tags: string): string {
  if (tags === '') return ''
  return JSON.stringify(JSON.parse(tags), (_name, value: unknown) => (typeof value === 'string' ? plain(value) : value))
}

function spenderId(place: SpendCell['place']): string {
  const { tenant, project, member, key, tags } = spenderOf(place)
  return hash('sha256', JSON.stringify([tenant, project, member, key, tags])).slice(0, 32)
}

const grown = sumColumns
  .map((name) => {
    const sum = `s.${name}::numeric + excluded.${name}`
    const most = mostOf(name)
    return `${name} = ${most === undefined ? sum : `least(${sum}, ${most})`}`
  })
  .join(', ')

function writeSums({ name }: Span, value: string): string {
  const key = [name, 'spender', 'model', 'channel', 'price', 'cost_price']
  const all = [...key, ...sumColumns, 'units']
  const types = [`${name} int`, ...key.slice(1).map((column) => `${column} text`)]
  const sums = sumColumns.map((column) => `${column} bigint`)
  // In one order, so that nobody who writes some of the same rows waits in a circle.
  return `insert into sluice.spend_${name} as s (${all.join(', ')})
    select ${all.join(', ')} from json_to_recordset(${value}) r(${[...types, ...sums, 'units jsonb'].join(', ')})
    order by ${key.join(', ')}
    on conflict (${key.join(', ')}) do update set ${grown}, units = sluice.spend_units(s.units, excluded.units)`
}

/** Writes spenders, the sums of each span, and how far the chains were added up: one statement for four tables. */
const writeAll = `with spenders as (
    insert into sluice.spender select * from json_to_recordset($1)
      s(id text, tenant text, project text, member text, key text, tags text) on conflict do nothing
  ), ${spans.map((span, i) => `${span.name}s as (${writeSums(span, `$${i + 2}`)})`).join(', ')}
  insert into sluice.spend_seen select * from json_to_recordset($${spans.length + 2}) s(node text, epoch int, seq bigint)
    on conflict (node, epoch) do update set seq = excluded.seq`

/** The rows of a table, each once: a month has many days, and one spender stands in the journal in several ways. */
export function rowsOf({ name, of }: Span, cells: readonly SpendCell[]): Record<string, unknown>[] {
  const rows = new Map<string, { place: Record<string, unknown>; sum: SpendCell }>()
  for (const cell of cells) {
    const { day, model, channel, price, costPrice } = cell.place
    const place = { [name]: of(day), spender: spenderId(cell.place), model, channel, price, cost_price: costPrice }
    const id = JSON.stringify(Object.values(place))
    const sum = rows.get(id)?.sum
    if (sum) join(sum, cell)
    else rows.set(id, { place, sum: { ...cell, units: { ...cell.units } } })
  }
  return [...rows.values()].map(({ place, sum: { requests, charge, failed, cost, units } }) => {
    const others = Object.entries(units).filter(([unit]) => !commonUnits.includes(unit))
    const common = Object.fromEntries(commonUnits.map((unit) => [unit, units[unit] ?? 0]))
    const amounts = { charge: String(charge), failed: String(failed), cost: String(cost) }
    return { ...place, requests, ...amounts, ...common, units: others.length > 0 ? Object.fromEntries(others) : null }
  })
}

function join(sum: SpendCell, { requests, charge, failed, cost, units }: SpendCell): void {
  sum.requests += requests
  sum.charge += charge
  sum.failed = smaller(sum.failed + failed, mostCost)
  sum.cost = smaller(sum.cost + cost, mostCost)
  for (const [name, number] of Object.entries(units))
    sum.units[name] = Math.min((sum.units[name] ?? 0) + number, mostSummed)
}
