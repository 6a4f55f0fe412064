// The blocks of 1024 request records: stores of each full one what its records are found by. Runs in the writer thread.
import { recordColumns } from '../rows/batch.ts'
import { boundColumns, FactBlock, factsOf } from '../rows/facts.ts'
import type { RequestRecord } from '../../requests.ts'
import { blockSize } from './schema.ts'
import type { Database, Statement, Value } from '../files/sqlite.ts'

/** The approximate number of bytes that a record takes besides its JSON, including its index entries and facts. */
const recordBytes = 200

/** The columns whose values are listed for each block, so that blocks without a value are passed over unread. */
const fields = ['tenant', 'key', 'model'] as const

const [tenantAt, keyAt, modelAt, timeAt, jsonAt, factsAt] = (
  ['tenant', 'key', 'model', 'time', 'json', 'facts'] as const
).map((name) => recordColumns.indexOf(name)) as [number, number, number, number, number, number]

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
      .prepare('SELECT seq, tenant, key, model, time, written, json FROM request WHERE seq >= ? ORDER BY seq')
      .all(last - (last % blockSize)) as unknown as {
      seq: number
      tenant: string | null
      key: string | null
      model: string | null
      time: number
      written: number
      json: string
    }[]
    for (const { seq, tenant, key, model, time, written, json } of rows)
      this.#keep(seq, written, tenant, key, model, time, json, null)
  }

  /** Adds the record at index `at` of `records`, and closes the block before it when that is full. */
  add(records: readonly Value[], at: number, seq: number, written: number): void {
    if (seq % blockSize === 0) this.#close(seq / blockSize - 1)
    this.#keep(
      seq,
      written,
      records[at + tenantAt] as string | null,
      records[at + keyAt] as string | null,
      records[at + modelAt] as string | null,
      records[at + timeAt] as number,
      records[at + jsonAt] as string,
      records[at + factsAt] as string | null
    )
  }

  #keep(
    seq: number,
    written: number,
    tenant: string | null,
    key: string | null,
    model: string | null,
    time: number,
    json: string,
    facts: string | null
  ): void {
    if (tenant !== null) this.#values[0]!.add(tenant)
    if (key !== null) this.#values[1]!.add(key)
    if (model !== null) this.#values[2]!.add(model)
    // A log of an earlier version has no facts.
    const known = facts ?? factsOf(JSON.parse(json) as RequestRecord)
    this.#facts.add(seq % blockSize, { tenant, key, model, time, facts: known })
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
