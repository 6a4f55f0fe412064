// The claims that all gateways share: what is being done for a name by one of them. A claim is a lease.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Claims } from '../../claims.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { persist } from '../database/persist.ts'
import { Soundness } from '../database/soundness.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'

/** How long a claim stands when its gateway is gone, and how often gateways renew theirs. Milliseconds. */
const [lease, renewEvery] = [15_000, 5000]

/** The claims as one gateway has them. */
export class ClaimBook implements Claims {
  readonly #database: Database
  readonly #lease: number
  readonly #soundness: Soundness
  /** Each claim has a holder of its own, so that who lost one does not leave that of another. */
  readonly #held = new Map<string, string>()
  readonly #leaving: Group<{ name: string; holder: string }>
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>

  /** `lease`: milliseconds. */
  constructor(database: Database, leaseFor = lease) {
    this.#database = database
    this.#lease = leaseFor
    this.#soundness = new Soundness(leaseFor)
    this.#leaving = new Group({ most: 500, write: (left) => this.#leave(left) })
    this.#loop = this.#renewAll(Math.min(renewEvery, leaseFor / 3))
  }

  /** @throws GatewayError `billing_unavailable` while nobody can say whose the name is */
  async take(name: string, what: Buffer): Promise<Buffer | undefined> {
    const holder = randomUUID()
    for (;;) {
      // It was left between the attempt and the look.
      const row = await persist(() => this.#take(name, what, holder)).catch((cause: unknown) => {
        this.#soundness.failed()
        throw unavailable(cause)
      })
      if (!row) continue
      if (row.mine) this.#held.set(name, holder)
      return row.mine ? undefined : row.what
    }
  }

  async look(name: string): Promise<Buffer | undefined> {
    try {
      const { rows } = await this.#database.reads.query<{ what: Buffer }>(
        'select what from sluice.claim where name = $1 and (until >= statement_timestamp() or not $2)',
        [plain(name), this.#soundness.holds]
      )
      return rows[0]?.what
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  leave(name: string): void {
    const holder = this.#held.get(name)
    if (holder === undefined) return
    this.#held.delete(name)
    // What cannot be left now ends with its lease.
    this.#leaving.add({ name: plain(name), holder }).catch(() => {})
  }

  /** Leaves what was left, and renews no more: what this gateway still has ends with its lease. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#loop, this.#leaving.idle()])
  }

  /** Takes nobody's name, or a claim whose gateway is gone; asked for again, it is still the one of this holder. */
  async #take(name: string, what: Buffer, holder: string): Promise<{ what: Buffer; mine: boolean } | undefined> {
    const { rows } = await this.#database.changes.query<{ what: Buffer; mine: boolean }>(
      `with taken as (
         insert into sluice.claim as c values ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms')
         on conflict (name) do update set what = excluded.what, holder = excluded.holder, until = excluded.until
           where (c.until < clock_timestamp() and $5) or c.holder = excluded.holder
         returning what
       )
       select what, true as mine from taken
       union all select what, false from sluice.claim where name = $1
       order by mine desc limit 1`,
      [plain(name), what, holder, this.#lease, this.#soundness.holds]
    )
    return rows[0]
  }

  async #leave(left: readonly { name: string; holder: string }[]): Promise<void> {
    await this.#database.changes.query(
      `delete from sluice.claim c using json_to_recordset($1) l(name text, holder uuid)
       where c.name = l.name and c.holder = l.holder`,
      [JSON.stringify(left)]
    )
  }

  async #renewAll(every: number): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await sleep(every, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const held = [...this.#held].map(([name, holder]) => ({ name: plain(name), holder }))
      await this.#soundness
        .watch(() =>
          this.#database.changes.query(
            `with held as (select * from json_to_recordset($1) h(name text, holder uuid)),
               renewed as (
                 update sluice.claim c set until = clock_timestamp() + $2 * interval '1 ms'
                 from held h where c.name = h.name and c.holder = h.holder
               )
             delete from sluice.claim c where $3 and c.until < statement_timestamp() - interval '1 minute'
               and not exists (select from held h where h.name = c.name and h.holder = c.holder)`,
            [JSON.stringify(held), this.#lease, this.#soundness.holds]
          )
        )
        .catch(() => {})
    }
  }
}
