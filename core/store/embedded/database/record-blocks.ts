// The blocks of 1024 request records: stores of each full one what its records are found by. Runs in the writer thread.
import { boundColumns, FactBlock, factsOf } from '../rows/facts.ts'
import { gistIn } from '../rows/record-text.ts'
import type { RecordRow } from '../rows/record-text.ts'
import type { RecordGist } from '../../requests.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import { blockSize } from './schema.ts'
import type { Database, Statement } from '../files/sqlite.ts'

/** The approximate number of bytes that a record takes besides its JSON, including its index entries and facts. */
const recordBytes = 200

/** The columns whose values are listed for each block, so that blocks without a value are passed over unread. */
const fields = ['tenant', 'key', 'model'] as const

/** The block that is being filled. */
export class RecordBlocks {
  readonly #insert: Readonly<Record<'field' | 'extent' | 'facts', Statement>>
  /** The values that occur in the block, one set per field. */
  readonly #values: readonly Set<string>[] = fields.map(() => new Set())
  #facts = new FactBlock()
  /** The bytes of its records, when the last one was written, and the latest arrival. */
  #extent = { bytes: 0, written: 0, time: 0 }

  /** `last`: the number of the last record of the log. */
  constructor(database: Database, last: number) {
    this.#insert = {
      field: database.prepare('INSERT INTO request_block (block, field, value) VALUES (?, ?, ?)'),
      extent: database.prepare('INSERT INTO request_extent (block, bytes, written, time) VALUES (?, ?, ?, ?)'),
      facts: database.prepare(
        `INSERT INTO request_facts (block, ${boundColumns.join(', ')}, columns) VALUES (?, ${boundColumns.map(() => '?').join(', ')}, ?)`
      )
    }
    const rows = database
      .prepare(
        'SELECT seq, written, request_id, tenant, key, model, time, json FROM request WHERE seq >= ? ORDER BY seq'
      )
      .all(last - (last % blockSize)) as unknown as (RecordRow & { seq: number; written: number })[]
    const records = recordsBeside(database)
    for (const row of rows) this.#keep(row.seq, row.written, row, gistIn(records.read(row)))
  }

  /** Adds the record of a row, and closes the block before it when that is full. */
  add(seq: number, written: number, row: RecordRow, gist: RecordGist): void {
    if (seq % blockSize === 0) this.#close(seq / blockSize - 1)
    this.#keep(seq, written, row, gist)
  }

  #keep(seq: number, written: number, row: RecordRow, gist: RecordGist): void {
    const { tenant, key, model, json } = row
    const time = Number(row.time)
    if (tenant !== null) this.#values[0]!.add(tenant)
    if (key !== null) this.#values[1]!.add(key)
    if (model !== null) this.#values[2]!.add(model)
    this.#facts.add(seq % blockSize, factsOf(row, gist))
    const extent = this.#extent
    extent.bytes += json.length + recordBytes
    extent.written = written
    if (time > extent.time) extent.time = time
  }

  /** Stores a full block. The values are sorted, so that their rows are beside each other. */
  #close(block: number): void {
    for (const [column, field] of fields.entries()) {
      for (const value of [...this.#values[column]!].sort()) this.#insert.field.run(block, field, value)
      this.#values[column]!.clear()
    }
    const { bytes, written, time } = this.#extent
    this.#insert.extent.run(block, bytes, written, time)
    this.#insert.facts.run(block, ...this.#facts.bounds, this.#facts.encode())
    this.#facts = new FactBlock()
    this.#extent = { bytes: 0, written: 0, time: 0 }
  }
}
