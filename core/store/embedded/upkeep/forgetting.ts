// Deletes expired routes, some at a time.
import type { Committer } from '../database/committer.ts'
import type { Statement } from '../files/sqlite.ts'

/** How many routes one transaction deletes. It is small because each route lies on a page of its own. */
const atOnce = 100

/** The deletion of expired routes through one connection. */
export class Forgetting {
  readonly #committer: Committer
  readonly #any: Statement
  readonly #delete: Statement

  constructor(committer: Committer) {
    this.#committer = committer
    this.#delete = committer.database.prepare(
      `DELETE FROM route WHERE (tenant, project, id) IN (SELECT tenant, project, id FROM route WHERE expires <= ? ORDER BY expires LIMIT ${atOnce})`
    )
    this.#any = committer.database.prepare('SELECT 1 FROM route WHERE expires <= ? LIMIT 1')
  }

  /** Deletes some expired routes; returns whether there were any. `now` is in Unix milliseconds. */
  slice(now: number): boolean {
    if (!this.#any.get(now)) return false
    this.#committer.alter(() => this.#delete.run(now))
    return true
  }
}
