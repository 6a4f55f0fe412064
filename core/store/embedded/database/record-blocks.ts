// The blocks of 1024 request records: stores of each full one what its records are found by. Runs in the writer thread.
import { FactBlock } from '../rows/fact-block.ts'
import { boundColumns, factsOf } from '../rows/facts.ts'
import { gistIn } from '../rows/record-text.ts'
import type { RecordRow } from '../rows/record-text.ts'
import type { RecordGist } from '../../requests.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import { blockSize } from './schema.ts'
import type { Database, Statement } from '../files/sqlite.ts'

/** The approximate number of bytes that a record takes besides its JSON, including its index entries and facts. */
const recordBytes = 200

/** The block that is being filled. */
export class RecordBlocks {
  readonly #insert: Readonly<Record<'extent' | 'facts', Statement>>
  #facts = new FactBlock()
  /** The bytes of its records, when the last one was written, and the latest arrival. */
  #extent = { bytes: 0, written: 0, time: 0 }

  /** `last`: the number of the last record of the log. */
  constructor(database: Database, last: number) {
    this.#insert = {
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
    for (const row of rows) {
      const record = records.read(row)
      this.#keep(row.seq, row.written, record, gistIn(record), row.json)
    }
  }

  /** Adds a record, and closes the block before it when that is full. `json`: what its row has in that column. */
  add(seq: number, written: number, record: RecordRow, gist: RecordGist, json: string): void {
    if (seq % blockSize === 0) this.#close(seq / blockSize - 1)
    this.#keep(seq, written, record, gist, json)
  }

  #keep(seq: number, written: number, record: RecordRow, gist: RecordGist, json: string): void {
    const time = Number(record.time)
    this.#facts.add(seq % blockSize, factsOf(record, gist))
    const extent = this.#extent
    extent.bytes += json.length + recordBytes
    extent.written = written
    if (time > extent.time) extent.time = time
  }

  /** Stores a full block. */
  #close(block: number): void {
    const { bytes, written, time } = this.#extent
    this.#insert.extent.run(block, bytes, written, time)
    this.#insert.facts.run(block, ...this.#facts.bounds, this.#facts.encode())
    this.#facts = new FactBlock()
    this.#extent = { bytes: 0, written: 0, time: 0 }
  }
}
