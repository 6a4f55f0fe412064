// Which gateways share the book: each tells the others every few seconds that it runs, and with which configuration.
// With that it hears whether a newer version has made the schema one that it cannot use.
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreNode } from '../store.ts'
import type { Database } from './database/database.ts'
import { newerThan } from './database/migrations.ts'
import { persist } from './database/persist.ts'

/** How often a gateway tells of itself, in milliseconds. */
const tellEvery = 3000
/** A gateway that was not heard of for so long counts as gone. */
const goneAfter = '15 seconds'

interface Row {
  readonly node: string
  readonly version: string
  readonly config: string
  readonly since: number
  /** The gateway whose worker it is. */
  readonly of: string | null
  /** The change that a program must know to use the schema. */
  readonly least: number | null
}

/** The gateways as one of them sees them. */
export class Presence {
  readonly #database: Database
  readonly #node: string
  readonly #version: string
  readonly #of: string | undefined
  #config = ''
  #nodes: readonly StoreNode[]
  #count = 1
  #least = 0
  readonly #stopping = new AbortController()
  #loop: Promise<void> | undefined

  private constructor(database: Database, node: string, version: string, of: string | undefined) {
    this.#database = database
    this.#node = node
    this.#version = version
    this.#of = of
    this.#nodes = [{ name: of ?? node, version, config: '', since: Date.now(), own: true, workers: 0 }]
  }

  /**
   * Tells of this node, until it is closed. `of`: the gateway whose worker it is.
   * @throws DatabaseFault
   */
  static async open(database: Database, node: string, version: string, of?: string): Promise<Presence> {
    const presence = new Presence(database, node, version, of)
    await presence.#tell(true)
    presence.#loop = presence.#follow()
    return presence
  }

  /** Those that run, this one too, by their names. Workers are in the count of their gateway. */
  get nodes(): readonly StoreNode[] {
    return this.#nodes
  }

  /** How many nodes there are, workers too. */
  get count(): number {
    return this.#count
  }

  /** Says that a newer version has made the schema unusable for this one; undefined while it has not. */
  get outdated(): string | undefined {
    return newerThan(this.#least, this.#database.migrations)
  }

  /** Takes down which configuration is in use: its hash. The others hear of it with the next word. */
  use(config: string): void {
    this.#config = config
    this.#nodes = this.#nodes.map((one) => (one.own ? { ...one, config } : one))
  }

  /** This gateway ends. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
    await this.#database.changes.query('delete from sluice.gateway where node = $1', [this.#node]).catch(() => {})
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await sleep(tellEvery * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {})
      // What cannot be told now is told with the next word.
      if (!signal.aborted) await this.#tell().catch(() => {})
    }
  }

  /** `begun`: whether this is the first word of a process. */
  async #tell(begun = false): Promise<void> {
    // Others remove what is old, too: nobody waits for a row that somebody else is at.
    const { rows } = await persist(() =>
      this.#database.changes.query<Row>(
        `with told as (
         insert into sluice.gateway as g (node, version, config, worker_of) values ($1, $2, $3, $5)
         on conflict (node) do update set version = excluded.version, config = excluded.config,
           seen = excluded.seen, started = case when $4 then excluded.started else g.started end
         returning node, version, config, started, worker_of
       ), gone as (
         delete from sluice.gateway where node in (
           select node from sluice.gateway where node <> $1 and seen < clock_timestamp() - interval '${goneAfter}'
           for update skip locked
         )
       )
       select node, version, config, worker_of as "of", (extract(epoch from started) * 1000)::float8 as since,
         (select max(min_program) from sluice.migration) as least from (
         select * from told union all select node, version, config, started, worker_of from sluice.gateway
         where node <> $1 and seen >= clock_timestamp() - interval '${goneAfter}'
       ) alive order by node`,
        [this.#node, this.#version, this.#config, begun, this.#of ?? null]
      )
    )
    this.#least = rows[0]?.least ?? 0
    this.#count = rows.length
    const workers = Map.groupBy(rows, ({ of }) => of)
    this.#nodes = (workers.get(null) ?? []).map(({ node, version, config, since }) => ({
      name: node,
      version,
      config,
      since,
      own: node === (this.#of ?? this.#node),
      workers: workers.get(node)?.length ?? 0
    }))
  }
}
