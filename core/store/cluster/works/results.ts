// The results of work, which every gateway can read: in pieces, so that none is a large value of the database.
import type { Database } from '../database/database.ts'
import type { Transaction } from '../database/lane.ts'
import { persist } from '../database/persist.ts'
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

/** How a gateway has work: in which epoch, and whether it knows that the database has it as its own. */
export interface Tenure {
  readonly epoch: bigint
  known: boolean
}

/** Of work that a gateway begins, or that nobody has. */
export function newTenure(): Tenure {
  return { epoch: 1n, known: false }
}

/** The results as one gateway reads and writes them. */
export class Results {
  readonly #database: Database
  readonly #owner: string

  constructor(database: Database, owner: string) {
    this.#database = database
    this.#owner = owner
  }

  /**
   * Keeps a result, in the place of an earlier one. Resolves when all of it is committed; with false, and without it,
   * when the work is another gateway's.
   */
  async put(key: ResultKey, bytes: Buffer, tenure: Tenure): Promise<boolean> {
    const { tenant, project, id } = key
    const write = (): Promise<boolean> =>
      this.#database.changes.transaction(
        async (transaction) => {
          if (!(await this.#mayWrite(transaction, key, tenure))) return false
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
          return true
        },
        { deadline: within }
      )
    try {
      return await persist(write)
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  /** The rule of `put_works`. Nobody takes the work over until the transaction ends. */
  async #mayWrite(
    transaction: Transaction,
    { tenant, project, id }: ResultKey,
    { epoch, known }: Tenure
  ): Promise<boolean> {
    const { rows } = await transaction.query<{ may: boolean }>(
      `select (owner = $4 and epoch = $5) or (not open and not $6) as may from sluice.work
       where tenant = $1 and project = $2 and id = $3 for share`,
      [tenant, project, id, this.#owner, epoch, known]
    )
    if (rows[0] || !known) return rows[0]?.may ?? true
    const gone = await transaction.query(
      'select from sluice.work_gone where tenant = $1 and project = $2 and id = $3',
      [tenant, project, id]
    )
    return gone.rows.length === 0
  }

  /** Reads a result; undefined when there is none. */
  async read({ tenant, project, id }: ResultKey): Promise<Buffer | undefined> {
    try {
      const { rows } = await this.#database.reads.query<{ bytes: Buffer }>(
        'select bytes from sluice.work_result where tenant = $1 and project = $2 and id = $3 order by number',
        [tenant, project, id],
        { deadline: within }
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
