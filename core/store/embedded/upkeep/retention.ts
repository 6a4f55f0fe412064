// Deletes the oldest request records, a block at a time: those that are too old, and those beyond a total size.
import type { Committer } from '../database/committer.ts'
import { blockSize } from '../database/schema.ts'

/** How much is kept of something that grows. */
export interface Bounds {
  /** The greatest age in milliseconds. */
  age: number
  /** The approximate greatest size in bytes, with indexes. */
  size: number
}

/** When the disk is full, one in this many blocks is deleted. */
const relief = 16

/** The deletion of request records through one connection. */
export class Retention {
  readonly #committer: Committer
  /** How much is kept. {@link Retention.relieve} lowers it. */
  bounds: Bounds
  readonly #sql: ReturnType<typeof prepare>
  /** The bytes of the full blocks up to the block `#last`. */
  #bytes = 0
  #last = -1

  constructor(committer: Committer, bounds: Bounds) {
    this.#committer = committer
    this.bounds = bounds
    this.#sql = prepare(committer.database)
  }

  /** Deletes one block that is too old or too much; returns whether there was one. `now` is in Unix milliseconds. */
  slice(now: number): boolean {
    const { sum, oldest } = this.#sql
    const { bytes, last } = sum.get(this.#last) as { bytes: number | null; last: number | null }
    this.#bytes += bytes ?? 0
    this.#last = last ?? this.#last
    const block = oldest.get() as { block: number; bytes: number; written: number; time: number } | undefined
    if (!block || (block.written >= now - this.bounds.age && this.#bytes <= this.bounds.size)) return false
    this.#letGo(block.block, block.time)
    this.#bytes -= block.bytes
    return true
  }

  /** Whether the database has few free pages, so that it will soon grow. */
  get cramped(): boolean {
    const { free, pages } = this.#sql.room.get() as { free: number; pages: number }
    return free < pages / (2 * relief)
  }

  /**
   * Deletes a sixteenth of the blocks because the disk is full, and from then on keeps no more than is left. Returns
   * whether there were any.
   */
  relieve(): boolean {
    const { blocks } = this.#sql.count.get() as { blocks: number }
    for (let left = Math.ceil(blocks / relief); left > 0; left--) {
      const block = this.#sql.oldest.get() as { block: number; time: number }
      this.#letGo(block.block, block.time)
    }
    this.#bytes = 0
    this.#last = -1
    const { bytes } = this.#sql.sum.get(-1) as { bytes: number | null }
    this.bounds = { ...this.bounds, size: Math.min(this.bounds.size, bytes ?? 0) }
    return blocks > 0
  }

  #letGo(block: number, time: number): void {
    const { records, facts, extent } = this.#sql
    this.#committer.alter((head) => {
      head.requests -= Number(records.run(block * blockSize, (block + 1) * blockSize - 1).changes)
      head.unrecorded = Math.max(head.unrecorded, time)
      facts.run(block)
      extent.run(block)
    })
  }
}

function prepare(database: Committer['database']) {
  return {
    sum: database.prepare('SELECT sum(bytes) AS bytes, max(block) AS last FROM request_extent WHERE block > ?'),
    room: database.prepare(
      'SELECT freelist_count AS free, page_count AS pages FROM pragma_freelist_count(), pragma_page_count()'
    ),
    count: database.prepare('SELECT count(*) AS blocks FROM request_extent'),
    oldest: database.prepare('SELECT * FROM request_extent ORDER BY block LIMIT 1'),
    records: database.prepare('DELETE FROM request WHERE seq BETWEEN ? AND ?'),
    facts: database.prepare('DELETE FROM request_facts WHERE block = ?'),
    extent: database.prepare('DELETE FROM request_extent WHERE block = ?')
  }
}
