// The claims that all gateways share: what is being done for a name by one of them. A claim is a lease.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Claims } from '../../claims.ts'
import { databaseTime } from '../database/clock.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { persist } from '../database/persist.ts'
import { Soundness } from '../database/soundness.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'

/** How long a claim stands when its gateway is gone, and how often gateways renew theirs. Milliseconds. */
const [lease, renewEvery] = [15_000, 5000]
/** How soon they do after a failure, in milliseconds: a server may have taken over that lacks some. */
const againAfter = 250

/** A claim of this gateway. Each has a holder of its own, so that who lost one does not leave that of another. */
interface Held {
  readonly what: Buffer
  readonly holder: string
}

/** The claims as one gateway has them. */
export class ClaimBook implements Claims {
  readonly #database: Database
  readonly #lease: number
  readonly #soundness: Soundness
  readonly #held = new Map<string, Held>()
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
    // What goes on here has its name, also where the database has lost it.
    const own = this.#held.get(name)
    if (own) return own.what
    const holder = randomUUID()
    for (;;) {
      // It was left between the attempt and the look.
      const row = await persist(() => this.#take(name, what, holder)).catch((cause: unknown) => {
        this.#soundness.failed()
        throw unavailable(cause)
      })
      if (!row) continue
      if (row.mine) this.#held.set(name, { what, holder })
      return row.mine ? undefined : row.what
    }
  }

  async look(name: string): Promise<Buffer | undefined> {
    const { by, beyond } = this.#soundness.gone
    try {
      const { rows } = await this.#database.reads.query<{ what: Buffer }>(
        'select what from sluice.claim where name = $1 and until >= $2::timestamptz and until <= $3::timestamptz',
        [plain(name), by, beyond]
      )
      return rows[0]?.what
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  leave(name: string): void {
    const held = this.#held.get(name)
    if (!held) return
    this.#held.delete(name)
    this.#giveUp(name, held)
  }

  /** Leaves what was left, and renews no more: what this gateway still has ends with its lease. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
    await this.#leaving.idle()
  }

  /** Takes nobody's name, or a claim whose gateway is gone; asked for again, it is still the one of this holder. */
  async #take(name: string, what: Buffer, holder: string): Promise<{ what: Buffer; mine: boolean } | undefined> {
    const { by, beyond } = this.#soundness.gone
    const { rows } = await this.#database.changes.query<{ what: Buffer; mine: boolean }>(
      `with taken as (
         insert into sluice.claim as c values ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms')
         on conflict (name) do update set what = excluded.what, holder = excluded.holder, until = excluded.until
           where c.until < $5::timestamptz or c.until > $6::timestamptz or c.holder = excluded.holder
         returning what
       )
       select what, true as mine from taken
       union all select what, false from sluice.claim where name = $1
       order by mine desc limit 1`,
      [plain(name), what, holder, this.#lease, by, beyond]
    )
    return rows[0]
  }

  /** What cannot be left now ends with its lease. */
  #giveUp(name: string, { holder }: Held): void {
    this.#leaving.add({ name: plain(name), holder }).catch(() => {})
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
    for (let pause = every; !signal.aborted;) {
      await sleep(pause, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const held = [...this.#held]
      pause = await this.#soundness
        .watch(() => this.#renew(held))
        .then(
          () => every,
          () => Math.min(every, againAfter)
        )
      // What was left meanwhile may have been put back.
      for (const [name, claim] of held) if (this.#held.get(name) !== claim) this.#giveUp(name, claim)
    }
  }

  /** Renews claims, puts back those that a server lacks which took over, and deletes what was left over by others. */
  async #renew(claims: readonly (readonly [string, Held])[]): Promise<void> {
    const held = claims.map(([name, { what, holder }]) => ({ name: plain(name), what: what.toString('hex'), holder }))
    const { by, beyond } = this.#soundness.gone
    const began = performance.now()
    // In the order of names, so that two who renew the same ones do not stop each other.
    const { rows } = await this.#database.changes.query<{ now: number }>(
      `with held as (select * from json_to_recordset($1) h(name text, what text, holder uuid)),
         renewed as (
           insert into sluice.claim as c
             select name, decode(what, 'hex'), holder, clock_timestamp() + $2 * interval '1 ms' from held order by name
           on conflict (name) do update set until = excluded.until where c.holder = excluded.holder
         ), gone as (
           delete from sluice.claim c
           where (c.until < $3::timestamptz - interval '1 minute' or c.until > $4::timestamptz)
             and not exists (select from held h where h.name = c.name and h.holder = c.holder)
         )
       select ${databaseTime} as now`,
      [JSON.stringify(held), this.#lease, by, beyond]
    )
    this.#soundness.saw(rows[0]!.now, began)
  }
}
