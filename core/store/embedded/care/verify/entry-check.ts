// Checks single entries of a journal for `verify`, and adds them to what the balances should be.
import { dueFor } from '../../database/due.ts'
import type { StoredPrice } from '../../database/due.ts'
import type { Row, Value } from '../../files/sqlite.ts'
import type { Accounts } from './accounts.ts'
import type { Report } from './invariants.ts'

/** The prices of a store, by their versions. */
export type StoredPrices = ReadonlyMap<Value | undefined, StoredPrice>

const sources: ReadonlySet<unknown> = new Set(['upstream', 'measured', 'partial', 'estimated', 'recovered', 'manual'])

/** Checks I4 and I7 of one row of a journal: its amount by arithmetic of its own, and where its usage is from. */
export function checkAmount(name: string, row: Row, prices: StoredPrices, report: Report): void {
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

/** Adds a row to what its balances should be. `counted`: the balances at hand include it. */
export function post(name: string, row: Row, counted: boolean, accounts: Accounts, report: Report): void {
  const { kind, amount, reserved } = row
  const debited = accounts.of(name, row)
  if (kind === 'cost') {
    if (row['channel'] === null) report('I5', name, 'is a cost that is owed to no channel')
    return
  }
  // An amount that is not an integer counts as 0 here, and is reported as a breach of I11.
  if (!counted || typeof amount !== 'bigint') return
  debited.posted += amount
  if (typeof reserved === 'bigint' && amount > reserved) debited.excess += amount - reserved
}
