// Reads the ledger of a book. Gateways may be using it.
import { parsePrice } from '../../money/price.ts'
import type { Price } from '../../money/price.ts'
import type { Breach } from '../embedded/care/verify/invariants.ts'
import { entryOf, rolled, sorted } from '../embedded/care/ledger-file.ts'
import type { Entry, EntryFilter } from '../embedded/care/ledger-file.ts'
import type { Reached } from '../embedded/care/tell.ts'
import type { Progress } from '../embedded/care/verify/checking.ts'
import type { Row } from '../embedded/files/sqlite.ts'
import { entryColumns } from '../embedded/rows/batch.ts'
import type { Balance } from '../ledger.ts'
import type { SpendPage, SpendQuery } from '../spend.ts'
import { day as dayLength } from '../window.ts'
import { openForReading } from './database/reading.ts'
import type { Lane } from './database/lane.ts'
import { verifyBook } from './money/verify/verify.ts'
import { SpendBook } from './spend/spend-book.ts'

/** How many entries are read at once, and how long reads may take, in milliseconds. */
const page = 1000
const within = { deadline: 120_000 }

/** The ledger of one book. */
export class LedgerBook {
  readonly #lane: Lane
  readonly #prices: ReadonlyMap<string, Price>
  readonly #spend: SpendBook

  private constructor(lane: Lane, prices: ReadonlyMap<string, Price>) {
    this.#lane = lane
    this.#prices = prices
    this.#spend = new SpendBook({ changes: lane, searches: lane })
  }

  /** @throws Error when it cannot be read: see {@link openForReading} */
  static async open(url: string): Promise<LedgerBook> {
    const lane = await openForReading(url, 'sluice ledger')
    const { rows } = await lane.query<{ version: string; json: string }>('select version, json from sluice.price')
    return new LedgerBook(lane, new Map(rows.map(({ version, json }) => [version, parsePrice(version, json)])))
  }

  /**
   * All balances, including past windows, sorted by scope and window. Those of rolling budgets are as of `now` (Unix
   * milliseconds).
   */
  async balances(now: number): Promise<Balance[]> {
    const { rows } = await this.#lane.query<Omit<Balance, 'limit'> & { limit: bigint | null }>(
      'select c.scope, c."window", b."limit", b.posted, b.pending from sluice.cell c join sluice.balance b on b.id = c.id',
      [],
      within
    )
    return sorted(
      rolled(
        rows.map(({ limit, ...balance }) => ({ ...balance, limit: limit ?? undefined })),
        now
      )
    )
  }

  /** Finds a price by its version, as of when the ledger was opened. */
  price(version: string): Price | undefined {
    return this.#prices.get(version)
  }

  /** Adds up what was charged until now. */
  spend(query: SpendQuery): Promise<SpendPage> {
    return this.#spend.query(query)
  }

  /** Every row that breaks an invariant. */
  verify(progress: Progress): Promise<Breach[]> {
    return verifyBook(this.#lane, progress)
  }

  /**
   * Yields the journal, day by day of arrival, and those of a day by the gateways that wrote them. `reached` is told of
   * all rows, whether they match or not.
   */
  async *entries(filter: EntryFilter = {}, reached: Reached = () => {}): AsyncGenerator<Entry> {
    const { since = 0, until = Number.MAX_SAFE_INTEGER, scope } = filter
    const { rows } = await this.#lane.query<{ first: number | null; last: number; rows: bigint }>(
      `select min(day) - date '1970-01-01' as first, max(day) - date '1970-01-01' as last,
         (select count(*) from sluice.journal) as rows from sluice.journal`,
      [],
      within
    )
    const [{ first, last, rows: all } = { first: null, last: 0, rows: 0n }] = rows
    if (first === null) return
    let read = 0
    const from = Math.max(first, Math.floor(since / dayLength))
    for (let day = from; day <= last && day * dayLength < until; day++) {
      for await (const row of this.#day(day)) {
        if (read++ % page === 0) reached(read - 1, Number(all))
        const entry = { ...entryOf(row), node: row['node'] as string }
        const counts = scope === undefined || Object.hasOwn(Object(entry.scopes), scope)
        if (counts && entry.time >= since && entry.time < until) yield entry
      }
    }
    reached(Number(all), Number(all))
  }

  async *#day(day: number): AsyncGenerator<Row> {
    let after: readonly unknown[] = ['', 0, 0]
    for (;;) {
      const { rows } = await this.#lane.query<Row>(
        `select node, epoch as boot_id, seq, encode(hash, 'hex') as hash, ${entryColumns.join(', ')} from sluice.journal
         where day = date '1970-01-01' + $1::int and (node, epoch, seq) > ($2, $3, $4)
         order by node, epoch, seq limit ${page}`,
        [day, ...after],
        within
      )
      yield* rows
      const last = rows.at(-1)
      if (!last || rows.length < page) return
      after = [last['node'], last['boot_id'], last['seq']]
    }
  }

  close(): Promise<void> {
    return this.#lane.close()
  }
}
