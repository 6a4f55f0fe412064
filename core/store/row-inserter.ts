// Inserts rows into one table, several with each call of a statement: calling costs as much as a row does.
import type { Database, Statement, Value } from './sqlite.ts'

/** Rows that a call inserts. More bring no more. */
export const rowsAtOnce = 8

/** Gathers rows until there are enough for a call. Values are bound when they are inserted, so they may not change before. */
export class RowInserter {
  readonly #several: Statement
  readonly #one: Statement
  /** Columns that are taken from a flat array, and all. */
  readonly #given: number
  readonly #width: number
  readonly #values: Value[]
  #length = 0

  /** `columns` are those of the flat arrays that rows come in, `more` those that are added to each; `conflict` is the clause for rows that are there already. */
  constructor(database: Database, table: string, columns: readonly string[], more: readonly string[], conflict: string) {
    this.#given = columns.length
    this.#width = columns.length + more.length
    const names = [...columns, ...more]
    const row = `(${names.map(() => '?').join(', ')})`
    // What fails ends the transaction, so nobody needs SQLite to be able to take back a part of the rows.
    const insert = (rows: number): Statement =>
      database.prepare(`INSERT OR FAIL INTO ${table} (${names.join(', ')}) VALUES ${Array(rows).fill(row).join(', ')} ${conflict}`)
    this.#several = insert(rowsAtOnce)
    this.#one = insert(1)
    this.#values = Array<Value>(rowsAtOnce * this.#width).fill(null)
  }

  /** Adds the row at index `at` of `rows`. */
  add(rows: readonly Value[], at: number, ...more: Value[]): void {
    const values = this.#values
    let length = this.#length
    for (let i = at; i < at + this.#given; i++) values[length++] = rows[i]!
    for (const value of more) values[length++] = value
    if (length === values.length) {
      this.#several.run(...values)
      length = 0
    }
    this.#length = length
  }

  /** Inserts what still waits. */
  flush(): void {
    for (let i = 0; i < this.#length; i += this.#width) this.#one.run(...this.#values.slice(i, i + this.#width))
    this.#length = 0
  }
}
