// Opens a ledger for a command that reads it: in a SQLite file, or in a book that gateways share.
import type { Price } from '../../money/price.ts'
import { LedgerBook } from '../../store/cluster/ledger-book.ts'
import type { Breach, InvariantName } from '../../store/embedded/care/verify/invariants.ts'
import { LedgerFile } from '../../store/embedded/care/ledger-file.ts'
import type { Entry, EntryFilter } from '../../store/embedded/care/ledger-file.ts'
import type { Reached } from '../../store/embedded/care/tell.ts'
import { verifyInThreads } from '../../store/embedded/care/verify/verify.ts'
import type { Progress } from '../../store/embedded/care/verify/checking.ts'
import { ofBook } from '../../store/cluster/money/verify/verify.ts'
import type { Balance } from '../../store/ledger.ts'
import type { SpendPage, SpendQuery } from '../../store/spend.ts'
import { noteLog, placeOf, restored } from '../command/store-option.ts'
import type { StoreGiven } from '../command/store-option.ts'

/** A ledger that is read, wherever it is. Gateways may be using it. */
export interface OpenLedger {
  /** For people, without secrets. */
  readonly shown: string
  /** The invariants that can be checked there; undefined for all. */
  readonly invariants: ReadonlySet<InvariantName> | undefined
  balances(now: number): Promise<Balance[]>
  entries(filter: EntryFilter, reached: Reached): AsyncIterable<Entry>
  price(version: string): Price | undefined
  spend(query: SpendQuery): Promise<SpendPage>
  verify(progress: Progress): Promise<readonly Breach[]>
  /** Says on standard error what the output does not include, if anything. */
  note(): void
  close(): Promise<void>
}

/**
 * Opens the ledger that options name, calls `work` with it, says what the output lacks, and closes it.
 * @throws ConfigError when the configuration is needed and has problems; Error when it cannot be read
 */
export async function withLedger<T>(given: StoreGiven, work: (ledger: OpenLedger) => Promise<T>): Promise<T> {
  const place = await placeOf(given)
  const ledger =
    place.sqlite === undefined
      ? ofDatabase(place.postgres.shown, await LedgerBook.open(place.postgres.url))
      : ofFile(restored(place.sqlite))
  try {
    const result = await work(ledger)
    ledger.note()
    return result
  } finally {
    await ledger.close()
  }
}

function ofFile(file: string): OpenLedger {
  const ledger = new LedgerFile(file)
  return {
    shown: file,
    invariants: undefined,
    balances: async (now) => ledger.balances(now),
    async *entries(filter, reached) {
      yield* ledger.entries(filter, reached)
    },
    price: (version) => ledger.price(version),
    spend: async (query) => ledger.spend(query),
    verify: (progress) => verifyInThreads(file, progress),
    note: () => noteLog(file),
    close: async () => ledger.close()
  }
}

function ofDatabase(shown: string, book: LedgerBook): OpenLedger {
  return {
    shown,
    invariants: ofBook,
    balances: (now) => book.balances(now),
    entries: (filter, reached) => book.entries(filter, reached),
    price: (version) => book.price(version),
    spend: (query) => book.spend(query),
    verify: (progress) => book.verify(progress),
    note: () => {},
    close: () => book.close()
  }
}
