// Which history of the database a server has, so that one that was replaced is not taken for the one that replaced it.
import { DatabaseFault } from './fault.ts'

/** The history of a server: the cluster that its data began in, and its timeline, which grows with each fail-over. */
export interface History {
  readonly system: string
  readonly timeline: number
}

/** Asks the server of a new connection something. */
export type Ask = (text: string) => Promise<{ readonly rows: readonly unknown[] }>

/**
 * The history that a process has seen. After a fail-over the server of before may come back and take changes again,
 * from those who find it first: then there are two books.
 */
export class Lineage {
  #seen: History | undefined

  /**
   * Looks which history the server of a new connection has.
   * @throws DatabaseFault `replaced` when it is not that of before, or an earlier state of it
   */
  async check(ask: Ask, shown: string): Promise<void> {
    const history = await historyOf(ask)
    if (history) this.see(history, shown)
  }

  /** As {@link Lineage.check}, of a history that is known. */
  see({ system, timeline }: History, shown: string): void {
    const seen = this.#seen
    if (seen && (seen.system !== system || timeline < seen.timeline))
      throw new DatabaseFault(
        'replaced',
        `PostgreSQL at ${shown} was replaced: ${
          seen.system === system
            ? `it is on timeline ${timeline}, and ${seen.timeline} was there before`
            : `its data are another cluster's (${system}) than before (${seen.system})`
        }. Stop that server, or, if it is the right one, restart the gateways`
      )
    this.#seen = { system, timeline }
  }
}

/** Undefined where this user may not ask, or the server is none of its own that can tell. */
async function historyOf(ask: Ask): Promise<History | undefined> {
  try {
    const { rows } = await ask(
      `select (select system_identifier::text from pg_control_system()) as system,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline`
    )
    return rows[0] as History | undefined
  } catch (error) {
    if (error instanceof DatabaseFault && !error.unknown) return undefined
    throw error
  }
}
