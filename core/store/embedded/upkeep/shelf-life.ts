// Deletes kept answers: those that are too old, and while they take too much space, those of the tenant that has most
// of them.
import type { Committer } from '../database/committer.ts'
import type { Bounds } from './retention.ts'

/** How many answers one slice deletes. */
const most = 32
/** The approximate number of bytes that an answer takes besides its body, with its entries in three indexes. */
const answerBytes = 300

/** What the answers of one tenant take. */
interface Counted {
  tenant: string
  count: number
  bytes: number | null
  last: number
}

/** The deletion of kept answers through one connection. */
export class ShelfLife {
  readonly #committer: Committer
  readonly #bounds: Bounds
  readonly #sql: ReturnType<typeof prepare>
  /**
   * The approximate bytes by tenant. An answer that was replaced counts twice until the total seems too large; then all
   * are counted again.
   */
  readonly #taken = new Map<string, number>()
  #last = 0

  constructor(committer: Committer, bounds: Bounds) {
    this.#committer = committer
    this.#bounds = bounds
    this.#sql = prepare(committer.database)
  }

  /** Deletes some answers, if any have to go; returns whether it did. `now` is in Unix milliseconds. */
  slice(now: number): boolean {
    const { added, all, old, oldestOf, remove } = this.#sql
    this.#count(added.all(this.#last) as unknown as Counted[])
    if (this.#total > this.#bounds.size) {
      this.#taken.clear()
      this.#count(all.all() as unknown as Counted[])
    }
    const crowded = this.#total > this.#bounds.size
    const rows = (crowded ? oldestOf.all(this.#largest, most) : old.all(now - this.#bounds.age, most)) as {
      seq: number
      tenant: string
      bytes: number
    }[]
    if (rows.length === 0) return false
    this.#committer.alter(() => {
      for (const { seq, tenant, bytes } of rows) {
        remove.run(seq)
        this.#add(tenant, -bytes - answerBytes)
      }
    })
    return true
  }

  /** The tenant whose answers take most, so that no tenant makes room for one that has more. */
  get #largest(): string {
    let largest: [tenant: string, bytes: number] = ['', 0]
    for (const entry of this.#taken) if (entry[1] > largest[1]) largest = entry
    return largest[0]
  }

  get #total(): number {
    let total = 0
    for (const bytes of this.#taken.values()) total += bytes
    return total
  }

  #count(counted: readonly Counted[]): void {
    for (const { tenant, count, bytes, last } of counted) {
      this.#add(tenant, (bytes ?? 0) + count * answerBytes)
      this.#last = Math.max(this.#last, last)
    }
  }

  #add(tenant: string, bytes: number): void {
    const taken = (this.#taken.get(tenant) ?? 0) + bytes
    if (taken > 0) this.#taken.set(tenant, taken)
    else this.#taken.delete(tenant)
  }
}

function prepare(database: Committer['database']) {
  const sums = 'SELECT tenant, count(*) AS count, sum(bytes) AS bytes, max(seq) AS last FROM answer'
  return {
    added: database.prepare(`${sums} WHERE seq > ? GROUP BY tenant`),
    all: database.prepare(`${sums} GROUP BY tenant`),
    old: database.prepare('SELECT seq, tenant, bytes FROM answer WHERE time < ? ORDER BY time LIMIT ?'),
    oldestOf: database.prepare('SELECT seq, tenant, bytes FROM answer WHERE tenant = ? ORDER BY time LIMIT ?'),
    remove: database.prepare('DELETE FROM answer WHERE seq = ?')
  }
}
