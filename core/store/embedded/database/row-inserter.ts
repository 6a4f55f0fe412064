// Inserts rows into one table, several with each call of a statement. Calling a statement and binding a value cost as
// much as the row itself, so this saves two microseconds per request in the writer thread.
import type { Database, Statement, Value } from '../files/sqlite.ts'

/** How many rows one call inserts. A larger number is not faster. */
export const rowsAtOnce = 16
/**
 * How many statements are kept, one for each set of columns in which all rows of a call agree. Usually there are a few.
 */
const mostStatements = 32

/** Collects rows until there are enough for a call. Their values must not change before they are inserted. */
export class RowInserter {
  readonly #database: Database
  readonly #table: string
  /** At most 31, because `#shared` has a bit for each. */
  readonly #columns: readonly string[]
  readonly #conflict: string
  /** How many of the columns come from the flat array. */
  readonly #given: number
  readonly #values: Value[]
  #length = 0
  #inserted = 0
  /** A bit for each column in which all collected rows have the same value, which is then bound once. */
  #shared = 0
  readonly #one: Statement
  /** The statements for several rows, by `#shared`. */
  readonly #several = new Map<number, Statement>()

  /**
   * `columns` are those of the flat arrays of rows, `more` those that are added to each row. `conflict` is the SQL
   * clause for rows that exist already.
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

  /** Inserts the rows that still wait. Returns how many rows were new since the last call of flush. */
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
   * The parameters are the shared columns, then the other columns of each row. They have no numbers, because SQLite
   * would have to look those up.
   */
  #prepare(rows: number, shared: number): Statement {
    let own = 0
    const selected = this.#columns.map((_, i) => (shared & (1 << i) ? '?' : `column${++own}`))
    const row = `(${Array(own).fill('?').join(', ')})`
    // With FAIL, SQLite need not be able to undo a part of the rows. An error ends the whole transaction anyway.
    return this.#database.prepare(
      `INSERT OR FAIL INTO ${this.#table} (${this.#columns.join(', ')}) SELECT ${selected.join(', ')} FROM (VALUES ${Array(rows).fill(row).join(', ')}) WHERE true ${this.#conflict}`
    )
  }
}
