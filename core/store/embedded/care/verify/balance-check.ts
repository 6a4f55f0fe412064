// Checks for `verify` that balances are what entries and open holds add up to.
import type { Row, Value } from '../../files/sqlite.ts'
import { daysOf } from '../../../window.ts'
import type { Accounts } from './accounts.ts'
import type { Report } from './invariants.ts'

/** Checks I9: only detached holds are of an earlier start than `boot`. Returns how many are open. */
export function checkHolds(holds: Iterable<Row>, boot: number, accounts: Accounts, report: Report): number {
  let count = 0
  for (const row of holds) {
    count++
    const name = `reservation ${row['request_id']}`
    const { amount } = row
    const debited = accounts.of(name, row)
    if (typeof amount === 'bigint') debited.pending += amount
    if (Number(row['boot_id']) !== boot && row['lease_until'] === null)
      report('I9', name, `is open since boot ${row['boot_id']}, and this is ${boot}`)
  }
  return count
}

/** What is known of the balances that are checked. */
interface Known {
  /** No entry is missing in what was added up. */
  readonly whole: boolean
  /** The balances are as of the open holds. */
  readonly upToDate: boolean
  /** Says of `<scope> <window>` whether it is an hour that may have been deleted. */
  readonly past: (name: string) => boolean
}

/** Checks I1, I2, I6 and I14. Returns how many balances there are. */
export function checkBalances(
  rows: Iterable<Row>,
  { whole, upToDate, past }: Known,
  { balances }: Accounts,
  report: Report
): number {
  if (!whole)
    for (const name of ['I1', 'I6', 'I14'] as const)
      report(name, 'balance', 'cannot be compared, as rows of the journal are missing')
  const seen = new Set<string>()
  for (const row of rows) {
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
  for (const [name, { posted, pending }] of balances) {
    if (seen.has(name) || past(name)) continue
    if (whole && posted !== 0n)
      report('I1', `balance ${name}`, `is missing; the journal makes ${posted}`, offBy(0n, posted))
    if (upToDate && pending !== 0n)
      report('I2', `balance ${name}`, `is missing; open holds make ${pending}`, offBy(0n, pending))
  }
  return seen.size
}

/** How far a balance is from what it should be; undefined when it is no money at all, which is a breach of its own. */
export function offBy(one: Value | undefined, other: bigint): bigint | undefined {
  if (typeof one !== 'bigint') return undefined
  return one > other ? one - other : other - one
}
