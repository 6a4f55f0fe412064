// Lets go of kept answers, the oldest first: those above an age, and those above a size.
import type { Committer } from './committer.ts'
import type { Bounds } from './retention.ts'

/** Answers that go at one time. */
const most = 32
/** Bytes that an answer takes beside its body, with its places in two indexes. */
const answerBytes = 250

/** The chore of one connection. */
export class ShelfLife {
  readonly #committer: Committer
  readonly #bounds: Bounds
  readonly #sql: ReturnType<typeof prepare>
  /**
   * Of those that were there when it was looked last, about: one that was replaced counts twice until there seems to be
   * too much.
   */
  #bytes = 0
  #last = 0

  constructor(committer: Committer, bounds: Bounds) {
    this.#committer = committer
    this.#bounds = bounds
    this.#sql = prepare(committer.database)
  }

  /** Lets go of some, if there are any to go. Returns whether it did. `now`: Unix milliseconds. */
  slice(now: number): boolean {
    const { added, all, oldest } = this.#sql
    const { count, bytes, last } = added.get(this.#last) as { count: number; bytes: number | null; last: number | null }
    this.#bytes += (bytes ?? 0) + count * answerBytes
    this.#last = last ?? this.#last
    if (this.#bytes > this.#bounds.size) {
      const { count, bytes } = all.get() as { count: number; bytes: number | null }
      this.#bytes = (bytes ?? 0) + count * answerBytes
    }
    const crowded = this.#bytes > this.#bounds.size
    const rows = oldest.all(crowded ? Number.MAX_SAFE_INTEGER : now - this.#bounds.age, most) as {
      seq: number
      bytes: number
    }[]
    if (rows.length === 0) return false
    this.#committer.alter(() => {
      for (const { seq, bytes } of rows) {
        this.#sql.remove.run(seq)
        this.#bytes -= bytes + answerBytes
      }
    })
    return true
  }
}

function prepare(database: Committer['database']) {
  return {
    added: database.prepare(
      'SELECT count(*) AS count, sum(bytes) AS bytes, max(seq) AS last FROM answer WHERE seq > ?'
    ),
    all: database.prepare('SELECT count(*) AS count, sum(bytes) AS bytes FROM answer'),
    oldest: database.prepare('SELECT seq, bytes FROM answer WHERE time < ? ORDER BY time LIMIT ?'),
    remove: database.prepare('DELETE FROM answer WHERE seq = ?')
  }
}
