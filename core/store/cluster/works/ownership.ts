// Which gateway goes on with open work: each keeps its own by renewing a lease, and takes over what was not renewed.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Owner } from '../../owner.ts'
import type { Work } from '../../works.ts'
import { databaseTime } from '../database/clock.ts'
import type { Database } from '../database/database.ts'
import { Soundness } from '../database/soundness.ts'
import { errandsOf } from './errands.ts'
import type { Room } from './room.ts'

/** How often a gateway looks for work that nobody has, in milliseconds; with short leases more often. */
const lookEvery = 1000
/** How much it takes over with one look. */
const mostAtOnce = 50

/** Open work of this gateway. */
export interface HeldWork extends Owner {
  readonly id: string
  readonly epoch: bigint
}

/** What a gateway is told of its work. */
export interface Holding {
  /** The work that it has. */
  held(): readonly HeldWork[]
  /** It is another gateway's now. */
  lost(work: HeldWork): void
  /** The database does not have it: it is just being written, or a server has taken over that lacks it. */
  lacking(work: HeldWork): void
  /** Others ask for something of it. */
  asked(): void
  /** It was taken over. Resolves when it is this gateway's, or with false when it was lost before; never rejects. */
  taken(work: Work, epoch: bigint): Promise<boolean>
}

/** What a look finds: by tenant, what others have and what results take; whether work is left, and errands; when. */
interface Look {
  readonly elsewhere: Readonly<Record<string, number>>
  readonly room: Readonly<Record<string, number>>
  readonly gone: boolean
  readonly asked: boolean
  readonly now: number
}

/** Work that was given up, or that nobody has renewed: the two times of {@link Gone}. */
function left(by: string, beyond: string): string {
  return `sluice.work where open and (until <= ${by}::timestamptz or until > ${beyond}::timestamptz)`
}

/** Gives up all open work of an owner: anybody may have it now. What cannot be written ends with its lease. */
export async function giveUpAll(database: Pick<Database, 'changes'>, owner: string): Promise<void> {
  await database.changes
    .query(`update sluice.work set until = '-infinity' where open and owner = $1`, [owner])
    .catch(() => {})
}

/** The ownership of one gateway. */
export class Ownership {
  readonly #database: Database
  readonly #owner: string
  readonly #lease: number
  readonly #room: Room
  readonly #holding: Holding
  readonly #soundness: Soundness
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  #elsewhere: ReadonlyMap<string, number> = new Map()
  #renewed = performance.now()
  /** Is told of work that was taken over. Without it nothing is. */
  onTaken: ((work: Work) => void) | undefined

  constructor(database: Database, owner: string, lease: number, room: Room, holding: Holding) {
    this.#database = database
    this.#owner = owner
    this.#lease = lease
    this.#room = room
    this.#holding = holding
    this.#soundness = new Soundness(lease)
    this.#loop = this.#follow()
  }

  /** How much open work other gateways had at the last look. */
  get elsewhere(): number {
    let sum = 0
    for (const count of this.#elsewhere.values()) sum += count
    return sum
  }

  elsewhereOf(tenant: string): number {
    return this.#elsewhere.get(tenant) ?? 0
  }

  /**
   * Looks at what others have, at the room, and at what there is to do: one question, as it comes every second. Returns
   * whether work was taken over: it is not elsewhere any more, and there may be more of it.
   */
  async look(): Promise<boolean> {
    const { written } = this.#room
    const { by, beyond } = this.#soundness.gone
    const began = performance.now()
    const { rows } = await this.#database.reads.query<Look>(
      `select
         (select coalesce(json_object_agg(tenant, count), '{}') from (
           select tenant, count(*) from sluice.work where open and owner <> $1 group by tenant) elsewhere) as elsewhere,
         (select coalesce(json_object_agg(tenant, bytes), '{}') from sluice.work_room where bytes > 0) as room,
         exists (select from ${left('$2', '$3')}) as gone,
         exists (select from ${errandsOf('$1')}) as asked,
         ${databaseTime} as now`,
      [this.#owner, by, beyond]
    )
    const { elsewhere, room, gone, asked, now } = rows[0]!
    this.#soundness.saw(now, began)
    this.#elsewhere = new Map(Object.entries(elsewhere))
    // What was written meanwhile may be missing in what was read: the next look has it.
    if (this.#room.written === written) this.#room.count(new Map(Object.entries(room)))
    if (asked) this.#holding.asked()
    return gone && this.onTaken !== undefined && (await this.#take(this.onTaken))
  }

  /** Gives up some of it: anybody may have it now, or when its lease ends, where that cannot be written. */
  async giveUp({ tenant, project, id, epoch }: HeldWork): Promise<void> {
    await this.#database.changes
      .query(
        `update sluice.work set until = '-infinity'
         where open and owner = $1 and tenant = $2 and project = $3 and id = $4 and epoch = $5`,
        [this.#owner, tenant, project, id, epoch]
      )
      .catch(() => {})
  }

  /** Gives up what this gateway has: anybody may have it now. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
    await giveUpAll(this.#database, this.#owner)
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stopping
    const pause = Math.min(lookEvery, this.#lease / 6)
    let more = false
    while (!signal.aborted) {
      if (!more) await sleep(pause * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      more = await this.#soundness
        .watch(() => this.#turn())
        .catch(() => {
          // The leases go on for a while. They are renewed first when the database is there again, which may be another
          // server by then that lacks some of the work.
          this.#renewed = -Infinity
          return false
        })
    }
  }

  /** Returns whether the next one is to follow at once. */
  async #turn(): Promise<boolean> {
    if (performance.now() - this.#renewed > this.#lease / 3) await this.#renew()
    return this.look()
  }

  async #renew(): Promise<void> {
    const held = this.#holding.held()
    const began = performance.now()
    if (held.length > 0) {
      const { rows } = await this.#database.changes.query<{ i: number; lacking: boolean }>(
        `with held as (
           select h.*, row_number() over () as i
           from json_to_recordset($1) h(tenant text, project text, id text, epoch bigint)
         ), renewed as (
           update sluice.work w set until = clock_timestamp() + $3 * interval '1 ms' from held h
           where w.tenant = h.tenant and w.project = h.project and w.id = h.id
             and w.open and w.owner = $2 and w.epoch = h.epoch
           returning h.i
         )
         select (h.i - 1)::int as i, w.id is null as lacking from held h left join sluice.work w using (tenant, project, id)
         where h.i not in (select i from renewed)`,
        [JSON.stringify(held.map((one) => ({ ...one, epoch: String(one.epoch) }))), this.#owner, this.#lease]
      )
      for (const { i, lacking } of rows) this.#holding[lacking ? 'lacking' : 'lost'](held[i]!)
    }
    this.#renewed = began
  }

  /**
   * Takes over what was given up, and, where it can be told, what belongs to gateways that are gone. Returns whether
   * there was any.
   */
  async #take(tell: (work: Work) => void): Promise<boolean> {
    const { by, beyond } = this.#soundness.gone
    const { rows } = await this.#database.changes.query<{ json: string; epoch: bigint }>(
      `update sluice.work w set owner = $1, epoch = w.epoch + 1, until = clock_timestamp() + $2 * interval '1 ms'
       from (
         select tenant, project, id from ${left('$3', '$4')}
         order by until limit ${mostAtOnce} for update skip locked
       ) gone
       where w.tenant = gone.tenant and w.project = gone.project and w.id = gone.id
       returning w.json, w.epoch`,
      [this.#owner, this.#lease, by, beyond]
    )
    for (const { json, epoch } of rows) {
      const work = JSON.parse(json) as Work
      void this.#holding.taken(work, epoch).then((ours) => ours && tell(work))
    }
    return rows.length > 0
  }
}
