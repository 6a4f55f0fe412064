// The kept answers that all gateways share.
import type { Answers, KeptAnswer } from '../../answers.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'

/** How many answers one statement deletes. */
const atOnce = 100
const columns = 9

/** How much is kept. */
export interface ShelfBounds {
  /** Milliseconds. */
  readonly age: number
  /** Bytes of all answers. */
  readonly size: number
}

interface Put {
  readonly id: Buffer
  readonly tenant: string
  readonly time: number
  readonly answer: KeptAnswer
}

/** The kept answers as one gateway has them. */
export class Shelf implements Answers {
  readonly #database: Database
  readonly #bounds: ShelfBounds
  readonly #now: () => number
  readonly #group: Group<Put>
  readonly #putting = new Set<Promise<void>>()
  /**
   * Resolves when what a request was charged in the same tick is durable. Its answer waits for that: where its gateway
   * was killed in between, others would give it again, and it would be charged nobody.
   */
  follows: (requestId: string) => Promise<void> = () => Promise.resolve()

  constructor(database: Database, bounds: ShelfBounds, now: () => number) {
    this.#database = database
    this.#bounds = bounds
    this.#now = now
    this.#group = new Group({
      most: 100,
      bytesOf: ({ answer }) => answer.body?.length ?? 0,
      write: (puts) => this.#write(puts)
    })
  }

  async find(id: Buffer): Promise<KeptAnswer | undefined> {
    try {
      const { rows } = await this.#database.reads.query<
        Omit<KeptAnswer, 'headers' | 'body'> & { headers: string; body: Buffer | null }
      >('select asked, status, type, headers, streamed, body from sluice.answer where id = $1 and time >= $2', [
        id,
        this.#since
      ])
      const [row] = rows
      return row && { ...row, headers: JSON.parse(row.headers) as KeptAnswer['headers'], body: row.body ?? undefined }
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  put(id: Buffer, tenant: string, answer: KeptAnswer, requestId?: string): Promise<void> {
    const put = this.#put({ id, tenant, time: this.#now(), answer }, requestId)
    this.#putting.add(put)
    const over = (): void => void this.#putting.delete(put)
    put.then(over, over)
    return put
  }

  async #put(put: Put, requestId: string | undefined): Promise<void> {
    if (requestId !== undefined) await this.follows(requestId)
    try {
      await this.#group.add(put)
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  /** Deletes some: those that are too old, and while all take too much, those of the tenant that has most. */
  async sweep(): Promise<boolean> {
    const { changes } = this.#database
    const old = await changes.query(
      `delete from sluice.answer where id in (
         select id from sluice.answer where time < $1 limit ${atOnce} for update skip locked)`,
      [this.#since]
    )
    if (old.count === atOnce) return true
    const { rows } = await this.#database.reads.query<{ tenant: string; bytes: string; total: string }>(
      `select tenant, sum(bytes) as bytes, sum(sum(bytes)) over () as total
       from sluice.answer group by tenant order by sum(bytes) desc limit 1`
    )
    const [largest] = rows
    if (!largest || BigInt(largest.total) <= this.#bounds.size) return false
    const { count } = await changes.query(
      `delete from sluice.answer where id in (
         select id from sluice.answer where tenant = $1 order by time limit ${atOnce} for update skip locked)`,
      [largest.tenant]
    )
    return count > 0
  }

  /** Resolves when nothing waits to be written. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#putting)
  }

  /** The time of the oldest that counts. */
  get #since(): number {
    return Math.max(0, Math.ceil(this.#now() - this.#bounds.age))
  }

  async #write(puts: readonly Put[]): Promise<void> {
    const last = [...new Map(puts.map((put) => [put.id.toString('latin1'), put])).values()]
    const rows = last.map(
      (_, i) => `(${Array.from({ length: columns }, (_, j) => `$${i * columns + j + 1}`).join(', ')})`
    )
    const values = last.flatMap(({ id, tenant, time, answer }) => {
      const { asked, status, type, headers, streamed, body = null } = answer
      return [id, tenant, time, asked, status, plain(type), JSON.stringify(headers), streamed, body]
    })
    await this.#database.changes.query(
      `insert into sluice.answer (id, tenant, time, asked, status, type, headers, streamed, body) values ${rows.join(', ')}
       on conflict (id) do update set tenant = excluded.tenant, time = excluded.time, asked = excluded.asked,
         status = excluded.status, type = excluded.type, headers = excluded.headers, streamed = excluded.streamed,
         body = excluded.body`,
      values
    )
  }
}
