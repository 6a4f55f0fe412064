// Reads the ledger from the file of a store. A gateway may be using the store meanwhile.
import { parsePrice } from '../../../money/price.ts'
import type { Price } from '../../../money/price.ts'
import { readHead } from '../database/head.ts'
import type { Balance } from '../../ledger.ts'
import { missingMoves } from '../recovery/recovery.ts'
import { hasJournal } from '../segments/folder.ts'
import type { Fold } from '../segments/fold.ts'
import { JournalReader } from '../segments/journal-reader.ts'
import { querySpend } from '../reader/spend-query.ts'
import type { SpendPage, SpendQuery } from '../../spend.ts'
import { canonicalPath } from '../files/lock.ts'
import { checkSchema } from '../database/migration.ts'
import { openForReading, readRows } from '../files/sqlite.ts'
import type { Database, Row } from '../files/sqlite.ts'
import { readVolume, VolumeError, volumeFolder, volumeOf } from '../journal/volume.ts'
import type { Volume } from '../journal/volume.ts'
import { day, daysOf, hour, isHour, windowOf } from '../../window.ts'
import type { Spans } from '../../window.ts'
import type { Reached } from './tell.ts'

/** A row of the journal. Amounts are nano-dollars. */
export interface Entry {
  seq: number
  /** When its request arrived, in Unix milliseconds; it decides the windows. */
  time: number
  /** `settle`, `void`, `cost`, or `adjust` for the correction of an estimate; see schema.ts. */
  kind: string
  requestId: string
  part: string
  class: string
  /** The scopes that it counts in, outermost first, each with the spans of its budgets. */
  scopes: Record<string, Spans>
  amount: bigint
  reserved: bigint
  usage: unknown
  model: string | null
  channel: string | null
  priceVersion: string | null
  source: string | null
  /** What the caller was tagged with; null when there are none. */
  tags: unknown
  /** What the upstream charges, and the version of its price; null where it is not known. */
  cost: bigint | null
  costPrice: string | null
  /** The start of the gateway, or the epoch of the node, that wrote it. */
  boot: number
  /** Hexadecimal. */
  hash: string
  /** Which gateway wrote it, in a book that several share: `seq` counts in each start of one. */
  node?: string
}

/** A selection of entries, which must meet all conditions. */
export interface EntryFilter {
  /** Unix milliseconds. `since` is included, `until` is not. */
  since?: number | undefined
  until?: number | undefined
  scope?: string | undefined
  /** Only entries with a greater `seq`. */
  after?: number | undefined
}

/**
 * How many rows are gone through at a time. While a slow reader, or a search for rows that are rare, kept one read
 * transaction open, the write-ahead log would grow.
 */
const page = 1000

/** The ledger in one open file. */
export class LedgerFile {
  readonly #database: Database
  readonly #volumes: string
  readonly #segmented: boolean
  /** Where the journal is in segments: as it was when it was first asked for. */
  #reader: JournalReader | undefined

  /**
   * Opens the database for reading.
   * @throws Error when the file is not a store of this version
   */
  constructor(file: string) {
    this.#database = openForReading(file)
    this.#volumes = volumeFolder(canonicalPath(file))
    this.#segmented = hasJournal(this.#volumes)
    try {
      checkSchema(this.#database, file)
    } catch (error) {
      this.#database.close()
      throw error
    }
  }

  get #journal(): JournalReader | undefined {
    return this.#segmented ? (this.#reader ??= new JournalReader(this.#volumes)) : undefined
  }

  /** The number of the last entry. */
  get last(): number {
    return this.#journal?.state.place.seq ?? readHead(this.#database).seq
  }

  /**
   * All balances as of the last commit, including past windows, sorted by scope and window. Limits are up to some
   * seconds older. Those of rolling budgets are as of `now` (Unix milliseconds).
   */
  balances(now: number): Balance[] {
    const journal = this.#journal
    return sorted(rolled(journal ? balancesIn(journal.state) : presentBalances(this.#database), now))
  }

  /** Finds a price by its version. */
  price(version: string): Price | undefined {
    const json = this.#database.prepare('SELECT json FROM price WHERE version = ?').get(version)?.['json']
    return json === undefined ? undefined : parsePrice(version, json as string)
  }

  /** Adds up what was charged as of the last commit. */
  spend(query: SpendQuery): SpendPage {
    return querySpend(this.#database, query)
  }

  /** The hash of an entry, in hexadecimal; undefined when there is none with this number. */
  hashAt(seq: number): string | undefined {
    if (this.#journal) return this.#journal.hashAt(seq)
    for (const entry of this.entries({ after: seq - 1 })) return entry.seq === seq ? entry.hash : undefined
    return undefined
  }

  /**
   * Yields the journal up to its current last row, oldest first, from sealed volumes and from the database. At most one
   * volume is in memory. `reached` is told of all rows, whether they match or not.
   * @throws Error when the file of a volume with such entries is missing or was changed
   */
  *entries(filter: EntryFilter = {}, reached: Reached = () => {}): Generator<Entry> {
    if (this.#journal) yield* this.#segments(this.#journal, filter, reached)
    else yield* this.#rows(filter, reached)
  }

  *#rows(
    { since = 0, until = Number.MAX_SAFE_INTEGER, scope, after = 0 }: EntryFilter,
    reached: Reached
  ): Generator<Entry> {
    const last = this.last
    const next = this.#database.prepare(
      'SELECT * FROM volume WHERE first >= (SELECT coalesce(max(first), 0) FROM volume WHERE first <= ?1 + 1) AND last > ?1 ORDER BY first LIMIT 1'
    )
    next.setReadBigInts(true)
    const query = this.#database.prepare(`
      SELECT seq, ts_ms, kind, request_id, part, class, scopes, amount, reserved, usage_json, model, channel, price_version, source, tags, cost, cost_price, boot_id, lower(hex(hash)) AS hash
      FROM journal WHERE seq > ?1 AND seq <= ?2 AND ts_ms >= ?3 AND ts_ms < ?4
      AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(journal.scopes) AS scope WHERE scope.key = ?5)) ORDER BY seq`)
    query.setReadBigInts(true)
    for (let seq = after; seq < last;) {
      reached(seq - after, last - after)
      // One transaction for both reads: between two pages, rows may be sealed and deleted from the database.
      this.#database.exec('BEGIN')
      const row = next.get(seq)
      const end = Math.min(last, seq + page)
      const rows = row ? [] : query.all(seq, end, since, until, scope ?? null)
      this.#database.exec('COMMIT')
      if (row) {
        const volume = volumeOf(row as Row)
        if (volume.newest >= since && volume.oldest < until) yield* this.#sealed(volume, seq, { since, until, scope })
        seq = volume.last
      } else {
        yield* rows.map(entryOf)
        seq = end
      }
    }
    reached(last - after, last - after)
  }

  *#segments(journal: JournalReader, filter: EntryFilter, reached: Reached): Generator<Entry> {
    const { since = 0, until = Number.MAX_SAFE_INTEGER, after = 0 } = filter
    const { last } = this
    for (const row of journal.entries(after, ({ oldest, newest }) => newest >= since && oldest < until)) {
      const entry = entryOf(row)
      if ((entry.seq - after) % page === 0) reached(entry.seq - after, last - after)
      if (matches(entry, filter)) yield entry
    }
    reached(last - after, last - after)
  }

  /** Yields the matching entries of a volume whose seq is greater than `after`. */
  *#sealed(volume: Volume, after: number, filter: EntryFilter): Generator<Entry> {
    try {
      for (const row of readVolume(this.#volumes, volume)) {
        const entry = entryOf(row)
        if (entry.seq > after && matches(entry, filter)) yield entry
      }
    } catch (error) {
      if (error instanceof VolumeError)
        throw new Error(`the journal from row ${volume.first} to ${volume.last} ${error.message}`)
      throw error
    }
  }

  close(): void {
    this.#database.close()
  }
}

function matches({ time, scopes }: Entry, { since = 0, until = Number.MAX_SAFE_INTEGER, scope }: EntryFilter): boolean {
  return time >= since && time < until && (scope === undefined || Object.hasOwn(Object(scopes), scope))
}

/** All balances of a state, in no order. */
export function balancesIn({ balances }: Fold): Balance[] {
  return [...balances].map(({ scope, window, limit, posted, pending }) => ({ scope, window, limit, posted, pending }))
}

/** All balances as of the last commit, in no order. Those of rolling budgets have nothing: their hours have. */
export function presentBalances(database: Database): Balance[] {
  database.exec('BEGIN')
  try {
    const balances = new Map<string, Balance>()
    for (const row of readRows(database, 'SELECT * FROM balance')) {
      const { scope, window, limit, posted, pending } = row as unknown as Balance & { limit: bigint | null }
      balances.set(`${scope} ${window}`, { scope, window, limit: limit ?? undefined, posted, pending })
    }
    const moves = missingMoves({ database, head: readHead(database) })
    for (let i = 0; i < moves.length; i += 4) {
      const [scope, window, posted, pending] = moves.slice(i, i + 4) as [string, string, bigint, bigint]
      const none = { scope, window, limit: undefined, posted: 0n, pending: 0n }
      const before = balances.get(`${scope} ${window}`) ?? none
      const now = { ...before, posted: before.posted + posted, pending: before.pending + pending }
      balances.set(`${scope} ${window}`, now)
    }
    return [...balances.values()]
  } finally {
    database.exec('COMMIT')
  }
}

/** Sorts balances by scope and window. */
export function sorted(balances: readonly Balance[]): Balance[] {
  return balances.toSorted((a, b) => compare(a.scope, b.scope) || compare(a.window, b.window))
}

/** Puts what their hours add up to into the balances of rolling budgets. Hours have no limit of their own. */
export function rolled(balances: readonly Balance[], now: number): Balance[] {
  const hours = Map.groupBy(
    balances.filter(({ window }) => isHour(window)),
    ({ scope }) => scope
  )
  return balances.map((balance) => {
    const days = daysOf(balance.window)
    if (isHour(balance.window)) return { ...balance, limit: undefined }
    if (days === undefined) return balance
    const [first, last] = [windowOf('hour', now - days * day + hour), windowOf('hour', now)]
    const sum = { ...balance, posted: 0n, pending: 0n }
    for (const { window, posted, pending } of hours.get(balance.scope) ?? []) {
      if (window < first || window > last) continue
      sum.posted += posted
      sum.pending += pending
    }
    return sum
  })
}

/** Makes an entry of a row of a journal, in which hashes are hexadecimal. */
export function entryOf(row: Record<string, unknown>): Entry {
  const text = (name: string): string => row[name] as string
  const textOrNull = (name: string): string | null => row[name] as string | null
  return {
    seq: Number(row['seq']),
    time: Number(row['ts_ms']),
    kind: text('kind'),
    requestId: text('request_id'),
    part: text('part'),
    class: text('class'),
    scopes: parse(text('scopes')) as Record<string, Spans>,
    amount: row['amount'] as bigint,
    reserved: row['reserved'] as bigint,
    usage: row['usage_json'] === null ? null : parse(text('usage_json')),
    model: textOrNull('model'),
    channel: textOrNull('channel'),
    priceVersion: textOrNull('price_version'),
    source: textOrNull('source'),
    tags: row['tags'] === null ? null : parse(text('tags')),
    cost: row['cost'] as bigint | null,
    costPrice: textOrNull('cost_price'),
    boot: Number(row['boot_id']),
    hash: text('hash')
  }
}

/** Shows a column as text when it is not JSON. `verify` reports such a row. */
function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return json
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
