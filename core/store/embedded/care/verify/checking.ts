// What the checks of `verify` share.
import type { SpendSums } from '../../database/spend-sums.ts'
import type { Head } from '../../database/head.ts'
import type { StoredPrice } from '../../database/due.ts'
import type { Database, Value } from '../../files/sqlite.ts'
import type { Accounts } from './accounts.ts'
import type { InvariantName, Report } from './invariants.ts'
import type { Tell } from '../tell.ts'

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

/** How many rows are checked between two reports of progress. */
export const stride = 8192

/** The check of one store. */
export interface Checking {
  /** In a transaction: all of it is of one moment. */
  readonly database: Database
  /** Its canonical path. */
  readonly file: string
  readonly head: Head
  readonly prices: Map<Value | undefined, StoredPrice>
  /** What entries and holds add up to. */
  readonly accounts: Accounts
  readonly spend: SpendSums
  readonly report: Report
  readonly progress: Progress
  /** Runs a check of some invariants, which pages that cannot be read may end. */
  check(names: readonly InvariantName[], run: () => void): void
}
