// The rows of work in the database, as one gateway writes them and removes them.
import type { Owner } from '../../owner.ts'
import { isOpen } from '../../works.ts'
import type { Work } from '../../works.ts'
import type { Database } from '../database/database.ts'
import { persist } from '../database/persist.ts'
import { plain } from '../database/text.ts'
import type { ResultKey, Tenure } from './results.ts'

/** How long it is known of work that it was deleted. Who stood still for longer may bring it back. */
const remembered = "interval '1 day'"
/** How much of that is forgotten at once. */
const slice = 1000

/** A state of work to be written. */
export interface Put {
  readonly name: string
  readonly work: Work
  readonly tenure: Tenure
  /** Whether another gateway has it, or has ended it. */
  refused: boolean
}

/** The rows as one gateway has them. */
export class Rows {
  readonly #database: Database
  readonly #owner: string
  readonly #lease: number

  /** `lease`: milliseconds. */
  constructor(database: Database, owner: string, lease: number) {
    this.#database = database
    this.#owner = owner
    this.#lease = lease
  }

  /** Writes states, of each work the last, and says of each whether it was refused. */
  async write(puts: readonly Put[]): Promise<void> {
    const last = [...new Map(puts.map((put) => [put.name, put])).values()]
    const sent = last.map(({ work, tenure: { epoch, known } }) => ({
      ...keyOf(work),
      kind: work.kind,
      open: isOpen(work),
      created: work.created,
      expires: work.expires,
      request_id: plain(work.requestId),
      bytes: work.bytes,
      json: JSON.stringify(work),
      epoch: String(epoch),
      known
    }))
    const { rows } = await this.#database.changes.query<Owner & { id: string }>(
      `select * from sluice.put_works($1, $2, $3 * interval '1 ms')`,
      [this.#owner, JSON.stringify(sent), this.#lease]
    )
    const refused = new Set(rows.map((key) => nameOf(key, key.id)))
    for (const put of puts) {
      put.refused = refused.has(put.name)
      put.tenure.known ||= !put.refused
    }
  }

  /** Deletes work and its result. That is known for a while of work which another gateway may believe to have. */
  async remove({ tenant, project, id }: ResultKey): Promise<void> {
    await persist(() =>
      this.#database.changes.query(
        `with result as (
           delete from sluice.work_result where tenant = $1 and project = $2 and id = $3
         ), gone as (
           delete from sluice.work where tenant = $1 and project = $2 and id = $3 returning epoch
         )
         insert into sluice.work_gone as g select $1, $2, $3 from gone where epoch > 1
         on conflict (tenant, project, id) do update set at = excluded.at`,
        [tenant, project, id]
      )
    )
  }

  /** Forgets some of what was deleted long ago. Returns whether there may be more. */
  async sweepGone(): Promise<boolean> {
    const { count } = await this.#database.changes.query(
      `delete from sluice.work_gone where (tenant, project, id) in (
         select tenant, project, id from sluice.work_gone where at < clock_timestamp() - ${remembered}
         limit ${slice} for update skip locked)`
    )
    return count === slice
  }
}

export function keyOf({ tenant, project, id }: Work): ResultKey {
  return { tenant, project, id: plain(id) }
}

/** The name of work among all owners. It is unique, because no part of an owner's name has a line break. */
export function nameOf({ tenant, project }: Owner, id: string): string {
  return `${tenant}\n${project}\n${plain(id)}`
}
