// Lets go of routes that are too old, some at a time.
import type { Committer } from './committer.ts'
import type { Statement } from './sqlite.ts'

/** In one transaction: each lies on a page of its own. */
const atOnce = 100

/** The chore of one connection. */
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

  /** Lets some go, if there are any. Returns whether it did. `now`: Unix milliseconds. */
  slice(now: number): boolean {
    if (!this.#any.get(now)) return false
    this.#committer.alter(() => this.#delete.run(now))
    return true
  }
}
