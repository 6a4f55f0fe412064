// Lets go of the oldest request records, a block at a time: those above an age, and those above a size.
import { blockSize } from './committer.ts'
import type { Committer } from './committer.ts'

/** How much is kept of what only grows. */
export interface Bounds {
  /** Milliseconds. */
  age: number
  /** Bytes, about: of what is stored, with its indexes. */
  size: number
}

/** The chore of one connection. */
export class Retention {
  readonly #committer: Committer
  readonly #bounds: Bounds
  readonly #sql: ReturnType<typeof prepare>
  /** Bytes of the full blocks up to the last one that was looked at. */
  #bytes = 0
  #last = -1

  constructor(committer: Committer, bounds: Bounds) {
    this.#committer = committer
    this.#bounds = bounds
    this.#sql = prepare(committer.database)
  }

  /** Lets go of one block, if one is too old or too much. Returns whether it did. `now`: Unix milliseconds. */
  slice(now: number): boolean {
    const { sum, oldest } = this.#sql
    const { bytes, last } = sum.get(this.#last) as { bytes: number | null; last: number | null }
    this.#bytes += bytes ?? 0
    this.#last = last ?? this.#last
    const block = oldest.get() as { block: number; bytes: number; written: number; time: number } | undefined
    if (!block || (block.written >= now - this.#bounds.age && this.#bytes <= this.#bounds.size)) return false
    this.#letGo(block.block, block.time)
    this.#bytes -= block.bytes
    return true
  }

  #letGo(block: number, time: number): void {
    const { records, fields, extent } = this.#sql
    this.#committer.alter((head) => {
      head.requests -= Number(records.run(block * blockSize, (block + 1) * blockSize - 1).changes)
      head.unrecorded = Math.max(head.unrecorded, time)
      fields.run(block)
      extent.run(block)
    })
  }
}

function prepare(database: Committer['database']) {
  return {
    sum: database.prepare('SELECT sum(bytes) AS bytes, max(block) AS last FROM request_extent WHERE block > ?'),
    oldest: database.prepare('SELECT * FROM request_extent ORDER BY block LIMIT 1'),
    records: database.prepare('DELETE FROM request WHERE seq BETWEEN ? AND ?'),
    fields: database.prepare('DELETE FROM request_block WHERE block = ?'),
    extent: database.prepare('DELETE FROM request_extent WHERE block = ?')
  }
}
