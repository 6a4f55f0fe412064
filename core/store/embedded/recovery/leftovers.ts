// What a recovery works with: the holds that a crash left open, and where their ends are written.
import type { Batch } from '../rows/batch.ts'
import type { Committer } from '../database/committer.ts'
import type { Statement } from '../files/sqlite.ts'

/** How many holds are ended together. After a crash in between, the next start ends the rest. */
export const chunk = 500

/** An open hold with its price, integers as bigint. */
export interface HoldRow {
  id: bigint
  request_id: string
  part: string
  scopes: string
  amount: bigint
  model: string
  price_version: string
  price: string
  tags: string | null
  cost_price: string | null
  /** The price of the version `cost_price`. */
  own: string | null
  input_units: bigint
  max_out: bigint
  dispatched: bigint
  channel: string | null
  delivered_units: bigint
  endpoint: string | null
  client_protocol: string | null
  streamed: bigint
  ts_ms: bigint
  pieces: string | null
}

/** The charge of one part of an exchange, or of several. */
export interface PartRow {
  amount: bigint
  usage_json: string
}

/**
 * The holds that a recovery ends: those of earlier starts, except those of requests that another process goes on with,
 * and detached ones whose lease has not run out or whose requests have open work, which ends them.
 */
export interface Leftovers {
  /** The next {@link chunk} of them, by id: those of parts, or of `whole` exchanges. */
  next(whole: boolean): readonly HoldRow[]
  /** What was charged for the parts of a request. */
  partsOf(requestId: string): readonly PartRow[]
  /** Writes the ends of those that were given last, which are then no leftovers. */
  end(batch: Batch): void
}

/** A condition of SQL: an entry is in no volume. Sealed ones stay in the database for a moment. */
export const unsealed = 'seq > (SELECT coalesce(max(last), 0) FROM volume)'

/** Leftovers of a database, whose ends are committed to it. */
export class StoredLeftovers implements Leftovers {
  readonly #committer: Committer
  readonly #holds: Statement
  readonly #parts: Statement
  readonly #sealed: ReadonlyMap<string, readonly PartRow[]>
  readonly #now: number
  readonly #kept: string

  /** `now` in Unix milliseconds. The holds of the requests `kept` are none. `sealed`: the parts that volumes have. */
  constructor(
    committer: Committer,
    now: number,
    kept: readonly string[],
    sealed: ReadonlyMap<string, readonly PartRow[]>
  ) {
    this.#committer = committer
    this.#sealed = sealed
    this.#now = now
    this.#kept = JSON.stringify(kept)
    this.#holds = committer.database.prepare(
      `SELECT reservation.*, price.json AS price, own.json AS own FROM reservation
     JOIN price ON price.version = price_version LEFT JOIN price AS own ON own.version = cost_price WHERE boot_id < ? AND (part = '') = ?
       AND (lease_until IS NULL OR lease_until < ? AND request_id NOT IN (SELECT json ->> 'requestId' FROM work WHERE open = 1))
       AND request_id NOT IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ${chunk}`
    )
    this.#holds.setReadBigInts(true)
    this.#parts = committer.database.prepare(
      `SELECT amount, usage_json FROM journal WHERE request_id = ? AND class = 'terminal' AND kind = 'settle' AND part <> ''
        AND ${unsealed}`
    )
    this.#parts.setReadBigInts(true)
  }

  next(whole: boolean): readonly HoldRow[] {
    const { boot } = this.#committer.head
    return this.#holds.all(boot, whole ? 1 : 0, this.#now, this.#kept) as unknown as HoldRow[]
  }

  partsOf(requestId: string): readonly PartRow[] {
    return [...(this.#sealed.get(requestId) ?? []), ...(this.#parts.all(requestId) as unknown as PartRow[])]
  }

  end(batch: Batch): void {
    this.#committer.add(batch)
    this.#committer.commit()
  }
}
