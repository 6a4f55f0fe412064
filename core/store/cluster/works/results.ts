// The results of work, which every gateway can read: in pieces, so that none is a large value of the database.
import type { Database } from '../database/database.ts'
import { unavailable } from '../unavailable.ts'

/** The bytes of a piece. */
const pieceBytes = 1024 * 1024
/** How long writing or reading one may take, in milliseconds. */
const within = 60_000

/** Whose result it is. */
export interface ResultKey {
  readonly tenant: string
  readonly project: string
  readonly id: string
}

/** The results as one gateway reads and writes them. */
export class Results {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Keeps a result, in the place of an earlier one. Resolves when all of it is committed. */
  async put({ tenant, project, id }: ResultKey, bytes: Buffer): Promise<void> {
    try {
      await this.#database.changes.transaction(
        async (transaction) => {
          await transaction.query('delete from sluice.work_result where tenant = $1 and project = $2 and id = $3', [
            tenant,
            project,
            id
          ])
          for (let number = 0; number === 0 || number * pieceBytes < bytes.length; number++)
            await transaction.query(
              'insert into sluice.work_result (tenant, project, id, number, bytes) values ($1, $2, $3, $4, $5)',
              [tenant, project, id, number, bytes.subarray(number * pieceBytes, (number + 1) * pieceBytes)]
            )
        },
        { deadline: within, wait: 5000 }
      )
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  /** Reads a result; undefined when there is none. */
  async read({ tenant, project, id }: ResultKey): Promise<Buffer | undefined> {
    try {
      const { rows } = await this.#database.reads.query<{ bytes: Buffer }>(
        'select bytes from sluice.work_result where tenant = $1 and project = $2 and id = $3 order by number',
        [tenant, project, id],
        { deadline: within, wait: 5000 }
      )
      return rows.length === 0 ? undefined : Buffer.concat(rows.map(({ bytes }) => bytes))
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  /** Deletes results of no work, which were begun an hour ago: their gateway ended in between. Returns their number. */
  async sweep(): Promise<number> {
    try {
      const { rows } = await this.#database.changes.query<{ gone: bigint }>(
        `with orphan as (
           select tenant, project, id from sluice.work_result r
           where number = 0 and made < clock_timestamp() - interval '1 hour'
             and not exists (select from sluice.work w where w.tenant = r.tenant and w.project = r.project and w.id = r.id)
           limit 1000
         ), gone as (
           delete from sluice.work_result r using orphan o
           where r.tenant = o.tenant and r.project = o.project and r.id = o.id returning r.number
         )
         select count(*) filter (where number = 0) as gone from gone`
      )
      return Number(rows[0]?.gone ?? 0)
    } catch (cause) {
      throw unavailable(cause)
    }
  }
}
