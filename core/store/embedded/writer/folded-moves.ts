// What the balances of a database lack that is made of a journal.
import type { Batch } from '../rows/batch.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database } from '../files/sqlite.ts'
import type { Fold } from '../segments/fold.ts'
import { pastHours } from '../upkeep/past-hours.ts'

/** The changes that bring the balances of a database to those of a state. Hours that were deleted stay so. */
export function movesTo({ balances }: Fold, database: Database): Batch['moves'] {
  const stored = new Map<string, { readonly posted: bigint; readonly pending: bigint }>()
  for (const { scope, window, posted, pending } of readRows(database, 'SELECT * FROM balance'))
    stored.set(`${scope as string} ${window as string}`, { posted: posted as bigint, pending: pending as bigint })
  const past = pastHours(database)
  return [...balances].flatMap(({ scope, window, posted, pending }) => {
    const name = `${scope} ${window}`
    const before = stored.get(name) ?? { posted: 0n, pending: 0n }
    const same = posted === before.posted && pending === before.pending
    return same || past(name) ? [] : [scope, window, posted - before.posted, pending - before.pending]
  })
}
