// Inserts rows into one table, several with each call of a statement, which saves two microseconds a request in the
// writer's thread: calling, and binding a value, cost as much as a row does.
import type { Database, Statement, Value } from './sqlite.ts'

/** Rows that a call inserts. More bring no more. */
export const rowsAtOnce = 16
/** Statements that are kept for rows which agree in different columns; a few is what there is. */
const mostStatements = 32

/**
 * Gathers rows until there are enough for a call. Values are bound when they are inserted, so they may not change
 * before.
 */
export class RowInserter {
  readonly #database: Database
  readonly #table: string
  /** At most 31, a bit each. */
  readonly #columns: readonly string[]
  readonly #conflict: string
  /** Of the columns, those that are taken from a flat array. */
  readonly #given: number
  readonly #values: Value[]
  #length = 0
  #inserted = 0
  /** The columns in which all rows that wait have one value, which is bound once. */
  #shared = 0
  readonly #one: Statement
  /** By the columns that are shared. */
  readonly #several = new Map<number, Statement>()

  /**
   * `columns` are those of the flat arrays that rows come in, `more` those that are added to each; `conflict` is the
   * clause for rows that are there already.
   */
  constructor(
    database: Database,
    table: string,
    columns: readonly string[],
    more: readonly string[],
    conflict: string
  ) {
    this.#database = database
    this.#table = table
    this.#columns = [...columns, ...more]
    this.#conflict = conflict
    this.#given = columns.length
    this.#values = Array<Value>(rowsAtOnce * this.#columns.length).fill(null)
    this.#one = this.#prepare(1, 0)
  }

  /** Adds the row at index `at` of `rows`. */
  add(rows: readonly Value[], at: number, ...more: Value[]): void {
    const values = this.#values
    const row = this.#length
    const width = this.#columns.length
    const given = this.#given
    for (let i = 0; i < given; i++) values[row + i] = rows[at + i]!
    for (let i = given; i < width; i++) values[row + i] = more[i - given]!
    let shared = row === 0 ? (1 << width) - 1 : this.#shared
    for (let i = 0; i < width; i++) if (shared & (1 << i) && values[row + i] !== values[i]) shared &= ~(1 << i)
    this.#shared = shared
    this.#length = row + width
    if (this.#length === values.length) this.#insert()
  }

  /** Inserts what still waits. Returns how many rows were new since it was called last. */
  flush(): number {
    const width = this.#columns.length
    for (let row = 0; row < this.#length; row += width)
      this.#inserted += this.#one.run(...this.#values.slice(row, row + width)).changes as number
    this.#length = 0
    const inserted = this.#inserted
    this.#inserted = 0
    return inserted
  }

  #insert(): void {
    const values = this.#values
    const width = this.#columns.length
    const shared = this.#shared
    const bound: Value[] = []
    for (let i = 0; i < width; i++) if (shared & (1 << i)) bound.push(values[i]!)
    for (let row = 0; row < this.#length; row += width) {
      for (let i = 0; i < width; i++) if (!(shared & (1 << i))) bound.push(values[row + i]!)
    }
    let statement = this.#several.get(shared)
    if (!statement) {
      if (this.#several.size >= mostStatements) this.#several.clear()
      this.#several.set(shared, (statement = this.#prepare(rowsAtOnce, shared)))
    }
    this.#inserted += statement.run(...bound).changes as number
    this.#length = 0
  }

  /**
   * Parameters are the shared columns, and then the others of each row. They have no numbers, by which SQLite would
   * have to search for them.
   */
  #prepare(rows: number, shared: number): Statement {
    let own = 0
    const selected = this.#columns.map((_, i) => (shared & (1 << i) ? '?' : `column${++own}`))
    const row = `(${Array(own).fill('?').join(', ')})`
    // What fails ends the transaction, so nobody needs SQLite to be able to take back a part of the rows.
    return this.#database.prepare(
      `INSERT OR FAIL INTO ${this.#table} (${this.#columns.join(', ')}) SELECT ${selected.join(', ')} FROM (VALUES ${Array(rows).fill(row).join(', ')}) WHERE true ${this.#conflict}`
    )
  }
}
