// The client secrets that all gateways share, and what was spent with them. PostgreSQL decides, by its clock.
import type { Spent } from '../../../catalogue/caller.ts'
import type { Nano } from '../../../money/money.ts'
import { forgotten, mostSecrets, spentKept } from '../../secrets.ts'
import type { KeptSecret, Secrets } from '../../secrets.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { persist } from '../database/persist.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'

/** How many one statement forgets. */
const atOnce = 1000

interface End {
  readonly sha256: string
  readonly name: string
  readonly charged: string
}

/** Amounts as the database writes them. */
interface SpentRow {
  readonly posted: string
  readonly pending: string
}

interface SecretRow extends Pick<KeptSecret, 'issuer' | 'model'> {
  readonly settings: string | null
  readonly budget: string | null
  /** Milliseconds. */
  readonly left: number
}

/** The secrets as one gateway has them. */
export class SecretBook implements Secrets {
  readonly #database: Database
  readonly #now: () => number
  /** A turn that has ended waits for nothing. While the database is away its hold stays. */
  readonly #ends: Group<End>

  constructor(database: Database, now: () => number) {
    this.#database = database
    this.#now = now
    this.#ends = new Group({ most: 500, lasting: true, write: (ends) => this.#write(ends) })
  }

  async put({ sha256, issuer, model, settings, expires, budget }: KeptSecret): Promise<boolean> {
    const lifetime = expires - this.#now()
    try {
      const { rows } = await persist(() =>
        this.#database.changes.query<{ kept: boolean }>(
          `select sluice.keep_client_secret($1, $2, $3, $4, $5 * interval '1 ms', $6, $7) as kept`,
          [sha256, issuer, plain(model), settings, lifetime, budget === undefined ? null : String(budget), mostSecrets]
        )
      )
      return rows[0]!.kept
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  async find(sha256: Buffer): Promise<KeptSecret | undefined> {
    const row = await this.#read<SecretRow>(
      `select issuer, model, settings, budget, (extract(epoch from expires - clock_timestamp()) * 1000)::float8 as left
       from sluice.client_secret where sha256 = $1 and expires > clock_timestamp()`,
      sha256
    )
    if (!row) return undefined
    const { issuer, model, settings, budget, left } = row
    return {
      sha256,
      issuer,
      model,
      expires: this.#now() + left,
      ...(settings !== null && { settings }),
      ...(budget !== null && { budget: BigInt(budget) })
    }
  }

  async spent(sha256: Buffer): Promise<Spent> {
    const row = await this.#read<SpentRow>(
      `select posted, (select coalesce(sum(amount), 0) from sluice.client_secret_hold h where h.sha256 = c.sha256) as pending
       from sluice.client_secret c where sha256 = $1 and budget is not null`,
      sha256
    )
    if (!row) throw forgotten()
    return spentOf(row)
  }

  async hold(sha256: Buffer, name: string, amount: Nano): Promise<Spent | undefined> {
    const values = [sha256, plain(name), String(amount)]
    const { rows } = await persist(() =>
      this.#database.changes.query<SpentRow & { held: boolean }>(
        'select * from sluice.hold_client_secret($1, $2, $3)',
        values
      )
    ).catch((cause: unknown) => {
      throw unavailable(cause)
    })
    const [row] = rows
    if (!row) throw forgotten()
    return row.held ? undefined : spentOf(row)
  }

  end(sha256: Buffer, name: string, charged: Nano): void {
    // What cannot be written stays held, so that no more is spent than may be.
    this.#ends.add({ sha256: sha256.toString('hex'), name: plain(name), charged: String(charged) }).catch(() => {})
  }

  /** Forgets some that are over. Returns whether there may be more. */
  async sweep(): Promise<boolean> {
    const { count } = await this.#database.changes.query(
      `delete from sluice.client_secret where sha256 in (
         select sha256 from sluice.client_secret
         where expires < statement_timestamp() and (budget is null or expires < statement_timestamp() - $1 * interval '1 ms')
         limit ${atOnce} for update skip locked)`,
      [spentKept]
    )
    return count === atOnce
  }

  /** Resolves when nothing waits to be written, or it cannot be. */
  idle(): Promise<void> {
    return this.#ends.idle()
  }

  /** Writes what waits, if the database is there. */
  close(): Promise<void> {
    return this.#ends.close()
  }

  async #read<Row>(text: string, sha256: Buffer): Promise<Row | undefined> {
    try {
      return (await this.#database.reads.query<Row>(text, [sha256])).rows[0]
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  async #write(ends: readonly End[]): Promise<void> {
    await this.#database.changes.query(
      `with gone as (
         delete from sluice.client_secret_hold h
         using json_to_recordset($1) e(sha256 text, name text, charged numeric)
         where h.sha256 = decode(e.sha256, 'hex') and h.name = e.name
         returning h.sha256, e.charged
       )
       update sluice.client_secret c set posted = c.posted + charged
       from (select sha256, sum(charged) as charged from gone group by sha256) sums where c.sha256 = sums.sha256`,
      [JSON.stringify(ends)]
    )
  }
}

function spentOf({ posted, pending }: SpentRow): Spent {
  return { posted: BigInt(posted), pending: BigInt(pending) }
}
