// The routes that all gateways share. One that a gateway has just put is found by it at once.
import type { Owner } from '../../owner.ts'
import type { Route, Routes } from '../../routes.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'

/** How many expired routes one statement deletes. */
const atOnce = 1000

/** A change: a route, or null in its place when it is removed. */
interface Change {
  readonly name: string
  readonly tenant: string
  readonly project: string
  readonly id: string
  readonly route: Route | null
  readonly expires: number
}

/** The routes as one gateway has them. */
export class RouteBook implements Routes {
  readonly #database: Database
  readonly #age: number
  readonly #now: () => number
  readonly #group: Group<Change>
  /** The changes that are not committed. */
  readonly #waiting = new Map<string, Change>()

  /** `age`: how long a route is kept, in milliseconds. */
  constructor(database: Database, age: number, now: () => number) {
    this.#database = database
    this.#age = age
    this.#now = now
    this.#group = new Group({ most: 500, write: (changes) => this.#write(changes) })
  }

  async find({ tenant, project }: Owner, id: string): Promise<Route | undefined> {
    const waiting = this.#waiting.get(nameOf(tenant, project, id))
    if (waiting) return waiting.route ?? undefined
    try {
      const { rows } = await this.#database.reads.query<Omit<Route, 'tokens'> & { tokens: bigint | null }>(
        `select tenant, project, id, kind, channel, account, model, tokens from sluice.route
         where tenant = $1 and project = $2 and id = $3 and expires > $4`,
        [tenant, project, plain(id), this.#now()]
      )
      const [row] = rows
      return row && { ...row, tokens: row.tokens === null ? null : Number(row.tokens) }
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  async put(routes: readonly Route[]): Promise<void> {
    const expires = this.#now() + this.#age
    await Promise.all(routes.map((route) => this.#change(route, route.id, route, expires)))
  }

  remove(owner: Owner, id: string): Promise<void> {
    return this.#change(owner, id, null, 0)
  }

  /** Deletes some that expired. Returns whether there may be more. */
  async sweep(): Promise<boolean> {
    const { count } = await this.#database.changes.query(
      `delete from sluice.route where (tenant, project, id) in (
         select tenant, project, id from sluice.route where expires <= $1 limit ${atOnce} for update skip locked)`,
      [this.#now()]
    )
    return count === atOnce
  }

  /** Resolves when nothing waits to be written. */
  idle(): Promise<void> {
    return this.#group.idle()
  }

  async #change({ tenant, project }: Owner, id: string, route: Route | null, expires: number): Promise<void> {
    const change = { name: nameOf(tenant, project, id), tenant, project, id: plain(id), route, expires }
    this.#waiting.set(change.name, change)
    try {
      await this.#group.add(change)
    } catch (cause) {
      throw unavailable(cause)
    } finally {
      if (this.#waiting.get(change.name) === change) this.#waiting.delete(change.name)
    }
  }

  /** Of several changes of one route in a batch the last counts: a statement must not change a row twice. */
  async #write(changes: readonly Change[]): Promise<void> {
    const last = [...new Map(changes.map((change) => [change.name, change])).values()]
    const kept = last.flatMap(({ route, id, expires }) => {
      if (!route) return []
      const { tenant, project, kind, channel, account, model, tokens = null } = route
      return [{ tenant, project, id, kind, channel, account, model, tokens, expires }]
    })
    const gone = last.filter(({ route }) => !route).map(({ tenant, project, id }) => ({ tenant, project, id }))
    await this.#database.changes.query(
      `with gone as (
         delete from sluice.route r using json_to_recordset($1) g(tenant text, project text, id text)
         where r.tenant = g.tenant and r.project = g.project and r.id = g.id
       )
       insert into sluice.route
       select * from json_to_recordset($2) k(tenant text, project text, id text, kind text, channel text, account text,
         model text, tokens bigint, expires bigint)
       on conflict (tenant, project, id) do update set kind = excluded.kind, channel = excluded.channel,
         account = excluded.account, model = excluded.model, tokens = excluded.tokens, expires = excluded.expires`,
      [JSON.stringify(gone), JSON.stringify(kept)]
    )
  }
}

/** The name of a route. It is unique, because no part of an owner's name has a line break. */
function nameOf(tenant: string, project: string, id: string): string {
  return `${tenant}\n${project}\n${id}`
}
