// Answers queries of spend from the database. Its tables have a row for each day, or month, of a caller, model, channel
// and price, so that no entry of the journal is read.
import type { SpendGroup, SpendPage, SpendQuery, SpendSum } from '../../spend.ts'
import { commonUnits, dayOf, monthOf, mostSummed } from '../database/spend-sums.ts'
import type { Database, Row, Value } from '../files/sqlite.ts'

type Label = Exclude<SpendGroup, `tag:${string}`>

/** The groups that are columns of the sums, and not of the spender. */
const own: ReadonlySet<string> = new Set(['model', 'channel', 'day', 'month', 'price', 'cost_price'])

const spenderColumns: Readonly<Partial<Record<Label, string>>> = { tag: 'tags' }

/** The month of a day, in SQL. */
const monthOfDay =
  "CAST(strftime('%Y', day * 86400, 'unixepoch') AS INTEGER) * 12 + strftime('%m', day * 86400, 'unixepoch') - 1"

/** Returns a page of sums, sorted by their groups. */
export function querySpend(database: Database, query: SpendQuery): SpendPage {
  const { by, limit, after } = query
  database.exec('BEGIN')
  try {
    const asked = new Asked(database, query)
    const beyond = after ? [asked.compared('>', cursorOf(by, after))] : []
    let rows: Row[] | undefined
    if (asked.inner.whole) {
      const last = asked.rowAt(beyond, rowsOfGroup * limit)
      if (last) rows = asked.sums([...beyond, asked.compared('<=', last)], limit + 1)
      // The rows before the last one may be of fewer groups than a page has.
      if (rows && rows.length <= limit) rows = undefined
    }
    rows ??= asked.sums(beyond, limit + 1)
    const page = rows.slice(0, limit)
    const shown = page.map((row) => sumOf(row, by))
    if (page.some((row) => row['others'] === 1n)) {
      const [first, last] = [page[0]!, page.at(-1)!].map((row) => asked.labels.map((label) => row[label]!))
      const within = by.length === 0 ? [] : [asked.compared('>=', first!), asked.compared('<=', last!)]
      addUnits(shown, asked.units(within), by)
    }
    return { sums: shown, next: rows.length > limit ? shown.at(-1)!.group : undefined }
  } finally {
    database.exec('COMMIT')
  }
}

/** About as many rows of days as a group has that is told apart by all but the prices. */
const rowsOfGroup = 2

/** The statements of one query. */
class Asked {
  /** The names of the groups, by which they are sorted. */
  readonly labels: readonly string[]
  readonly inner: Inner
  readonly #database: Database
  readonly #groups: readonly string[]
  readonly #groupValues: Value[] = []
  readonly #joined: string

  constructor(database: Database, query: SpendQuery) {
    const { by } = query
    this.#database = database
    this.inner = new Inner(query)
    this.#groups = by.map((name, index) => `${expressionOf(name, this.#groupValues)} AS group${index}`)
    this.labels = by.map((_, index) => `group${index}`)
    this.#joined = by.every((name) => own.has(name)) ? '' : 'JOIN spender ON spender.id = spender'
  }

  /** The condition on groups that they are sorted before, at or behind a place. */
  compared(how: '>' | '>=' | '<=', place: readonly Value[]): Condition {
    return [`(${this.labels.join(', ')}) ${how} (${this.labels.map(() => '?').join(', ')})`, ...place]
  }

  sums(where: readonly Condition[], limit: number): Row[] {
    return this.#all(totals, this.inner.sums, where, this.labels, limit)
  }

  /** The units of other classes, a row for each class of a group. */
  units(where: readonly Condition[]): Row[] {
    return this.#all(['class', 'total(number) AS number'], this.inner.units, where, [...this.labels, 'class'], -1)
  }

  /**
   * The groups of the row at a place among all rows, sorted by their groups; undefined when there are fewer rows. Sums
   * of the groups up to there are sorted much faster than those of all, as SQLite keeps no more rows than it looks for.
   */
  rowAt(where: readonly Condition[], place: number): Value[] | undefined {
    const order = `ORDER BY ${this.labels.join(', ')} LIMIT 1 OFFSET ?`
    const [row] = this.#select(this.#groups, this.inner.sums, where, order, place)
    return row && this.labels.map((label) => row[label]!)
  }

  #all(sums: readonly string[], from: string, where: readonly Condition[], by: readonly string[], limit: number) {
    const grouped = by.length === 0 ? '' : `GROUP BY ${by.join(', ')} ORDER BY ${by.join(', ')}`
    return this.#select([...this.#groups, ...sums], from, where, `${grouped} LIMIT ?`, limit)
  }

  #select(columns: readonly string[], from: string, where: readonly Condition[], rest: string, count: number): Row[] {
    const conditions = where.length === 0 ? '' : `WHERE ${where.map(([sql]) => sql).join(' AND ')}`
    const sql = `SELECT ${columns.join(', ')} FROM (${from}) ${this.#joined} ${conditions} ${rest}`
    const given = where.flatMap(([, ...values]) => values)
    return all(this.#database, sql, [...this.#groupValues, ...this.inner.values, ...given, count])
  }
}

/** The amounts of a row, in SQL. */
const amounts = {
  charge: 'charge',
  failed: 'failed',
  cost: 'cost',
  uncosted: "CASE cost_price WHEN '' THEN charge ELSE 0 END"
} as const

/**
 * The two halves of each amount, which are added up apart: SQLite refuses a sum of more than 9.2 billion dollars, and
 * rows of many tenants may come to it.
 */
const halves = Object.entries(amounts).flatMap(([name, sql]) => [
  [`${name}_high`, `(${sql}) >> 32`],
  [`${name}_low`, `(${sql}) & 0xffffffff`]
])

/** What is counted. Sums of it are floating-point numbers, which are exact as far as a number counts. */
const counts = ['requests', ...commonUnits]

const totals = [
  ...halves.map(([name]) => `coalesce(sum(${name}), 0) AS ${name}`),
  ...counts.map((name) => `total(${name}) AS ${name}`),
  'coalesce(max(costed), 0) AS costed',
  'coalesce(max(others), 0) AS others'
]

/**
 * The inner query, which adds up by columns of the tables alone. Whole months are read from their table, unless days
 * are asked for, and only what is left of the first and last one from that of days.
 */
class Inner {
  readonly values: Value[] = []
  /** The query of sums, and that of the units of other classes. */
  readonly sums: string
  readonly units: string
  /** Whether its rows are told apart by nearly all that the tables are. */
  readonly whole: boolean

  constructor(query: SpendQuery) {
    const parts = spansOf(query).map(([table, since, until]) => {
      const where = [...(table === 'day' ? range('day', since, until) : range('month', since, until))]
      for (const name of ['model', 'channel'] as const)
        if (query.equal[name] !== undefined) where.push([`${name} = ?`, query.equal[name]])
      const who = whoOf(query)
      if (who) where.push(who)
      for (const [, ...given] of where) this.values.push(...given)
      const conditions = where.length === 0 ? '' : `WHERE ${where.map(([sql]) => sql).join(' AND ')}`
      return { table, conditions }
    })
    const keys = keysOf(query.by)
    const named = (table: string): string[] =>
      keys.map((name) => (name === 'month' && table === 'day' ? `${monthOfDay} AS month` : name))
    // Rows that are told apart by all of these are hardly fewer when they are added up, and the outer query does it.
    this.whole = ['spender', 'model', 'channel'].every((name) => keys.includes(name)) && query.by.includes('day')
    const grouped = keys.length === 0 || this.whole ? '' : `GROUP BY ${keys.join(', ')}`
    const added = this.whole ? plain : partials
    this.sums = parts
      .map(
        ({ table, conditions }) =>
          `SELECT ${[...named(table), ...added].join(', ')} FROM spend_${table} ${conditions} ${grouped}`
      )
      .join(' UNION ALL ')
    this.units = parts
      .map(
        ({ table, conditions }) =>
          `SELECT ${[...named(table), 'unit.key AS class', 'unit.value AS number'].join(', ')}
           FROM spend_${table} JOIN json_each(units) AS unit ${conditions}`
      )
      .join(' UNION ALL ')
  }
}

const partials = [
  ...halves.map(([name, sql]) => `sum(${sql}) AS ${name}`),
  ...counts.map((name) => `total(${name}) AS ${name}`),
  "max(cost_price <> '') AS costed",
  'max(units IS NOT NULL) AS others'
]

/** The same of a single row. */
const plain = [
  ...halves.map(([name, sql]) => `${sql} AS ${name}`),
  ...counts,
  "cost_price <> '' AS costed",
  'units IS NOT NULL AS others'
]

type Condition = [sql: string, ...values: Value[]]
type Bounds = [since: number | undefined, until: number | undefined]

/** The tables to read, each with the days or months to read of it. */
export function spansOf({
  by,
  since,
  until
}: Pick<SpendQuery, 'by' | 'since' | 'until'>): ['day' | 'month', ...Bounds][] {
  if (by.includes('day')) return [['day', since, until]]
  // The first month that begins within the days, and the first that does not end within them.
  const first = since === undefined ? undefined : monthOf(since - 1) + 1
  const last = until === undefined ? undefined : monthOf(until)
  if (first !== undefined && last !== undefined && first >= last) return [['day', since, until]]
  const spans: ['day' | 'month', ...Bounds][] = [['month', first, last]]
  if (first !== undefined && since! < dayOf(first)) spans.push(['day', since, dayOf(first)])
  if (last !== undefined && until! > dayOf(last)) spans.push(['day', dayOf(last), until])
  return spans
}

function range(name: string, since: number | undefined, until: number | undefined): Condition[] {
  const bounds: Condition[] = []
  if (since !== undefined) bounds.push([`${name} >= ?`, since])
  if (until !== undefined) bounds.push([`${name} < ?`, until])
  return bounds
}

/** The condition on spenders, if there is one. */
function whoOf({ equal, tag }: SpendQuery): Condition | undefined {
  const conditions: string[] = []
  const values: Value[] = []
  for (const name of ['tenant', 'project', 'member', 'key'] as const) {
    if (equal[name] === undefined) continue
    conditions.push(`${name} = ?`)
    values.push(equal[name])
  }
  if (tag) {
    conditions.push("nullif(tags, '') ->> ? = ?")
    values.push(pathOf(tag.name), tag.value)
  }
  if (conditions.length === 0) return undefined
  return [`spender IN (SELECT id FROM spender WHERE ${conditions.join(' AND ')})`, ...values]
}

/** The columns of the tables that the groups need. */
function keysOf(by: readonly SpendGroup[]): string[] {
  const keys = by.filter((name) => own.has(name)) as string[]
  return by.every((name) => own.has(name)) ? keys : [...keys, 'spender']
}

function expressionOf(name: SpendGroup, values: Value[]): string {
  if (!name.startsWith('tag:')) return spenderColumns[name as Label] ?? name
  values.push(pathOf(name.slice('tag:'.length)))
  return "coalesce(nullif(tags, '') ->> ?, '')"
}

/** The path of a tag in the JSON of tags. Names of tags have no quotation marks. */
function pathOf(tag: string): string {
  return `$."${tag}"`
}

function all(database: Database, sql: string, values: readonly Value[]): Row[] {
  const statement = database.prepare(sql)
  statement.setReadBigInts(true)
  return statement.all(...values) as Row[]
}

const dayMs = 86_400_000

/** Shows the value of a group. Days and months are numbers in the database. */
export function textOf(name: SpendGroup, value: Value): string {
  if (name === 'day') return new Date(Number(value) * dayMs).toISOString().slice(0, 10)
  if (name === 'month') return new Date(dayOf(Number(value)) * dayMs).toISOString().slice(0, 7)
  return String(value)
}

/** The place of a group as the database has it. */
export function cursorOf(by: readonly SpendGroup[], after: readonly string[]): (string | number)[] {
  return after.map((text, index) => {
    if (by[index] === 'day') return Math.floor(Date.parse(text) / dayMs)
    return by[index] === 'month' ? monthOf(Math.floor(Date.parse(`${text}-01`) / dayMs)) : text
  })
}

function sumOf(row: Row, by: readonly SpendGroup[]): SpendSum & { usage: Record<string, number> } {
  const nano = (name: keyof typeof amounts): bigint =>
    ((row[`${name}_high`] as bigint) << 32n) + (row[`${name}_low`] as bigint)
  return {
    group: by.map((name, index) => textOf(name, row[`group${index}`]!)),
    requests: Number(row['requests']),
    charge: nano('charge'),
    cost: row['costed'] === 1n ? nano('cost') : undefined,
    uncosted: nano('uncosted'),
    failed: nano('failed'),
    usage: Object.fromEntries(commonUnits.map((name) => [name, countOf(row[name]!)]))
  }
}

/** A sum of units, which is at most what one row can have. */
function countOf(sum: Value): number {
  return Math.min(Number(sum), mostSummed)
}

function addUnits(
  sums: readonly { group: readonly string[]; usage: Record<string, number> }[],
  rows: readonly Row[],
  by: readonly SpendGroup[]
): void {
  const byGroup = new Map(sums.map((sum) => [sum.group.join('\0'), sum]))
  for (const row of rows) {
    const sum = byGroup.get(by.map((name, index) => textOf(name, row[`group${index}`]!)).join('\0'))
    if (sum) sum.usage[String(row['class'])] = countOf(row['number']!)
  }
}
