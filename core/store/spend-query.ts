// Answers queries of spend from the database. Its tables have a row for each day, or month, of a caller, model, channel
// and price, so that no entry of the journal is read.
import type { SpendGroup, SpendPage, SpendQuery, SpendSum } from './spend.ts'
import { commonUnits, dayOf, monthOf } from './spend-sums.ts'
import { sumColumns } from './spend-table.ts'
import type { Database, Row, Value } from './sqlite.ts'

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
    const inner = new Inner(query)
    const values = [...inner.values]
    const groups = by.map((name, index) => `${expressionOf(name, values)} AS group${index}`)
    const labels = by.map((_, index) => `group${index}`)
    const joined = by.every((name) => own.has(name)) ? '' : 'JOIN spender ON spender.id = spender'
    const grouped = labels.length === 0 ? '' : `GROUP BY ${labels.join(', ')}`
    const marks = labels.map(() => '?').join(', ')
    const beyond = after ? `HAVING (${labels.join(', ')}) > (${marks})` : ''
    // The parameters of groups stand before those of the inner query.
    const parameters = [...values.slice(inner.values.length), ...inner.values]
    const from = (sql: string): string => `FROM (${sql}) ${joined}`
    const rows = all(
      database,
      `SELECT ${[...groups, ...totals].join(', ')} ${from(inner.sums)} ${grouped} ${beyond}
       ${labels.length === 0 ? '' : `ORDER BY ${labels.join(', ')}`} LIMIT ?`,
      [...parameters, ...(after ? cursorOf(by, after) : []), limit + 1]
    )
    const page = rows.slice(0, limit)
    const shown = page.map((row) => sumOf(row, by))
    if (page.some((row) => row['others'] === 1n)) {
      const ends = [page[0]!, page.at(-1)!].flatMap((row) => labels.map((label) => row[label]!))
      const within = labels.length === 0 ? '' : `HAVING (${labels.join(', ')}) BETWEEN (${marks}) AND (${marks})`
      const others = all(
        database,
        `SELECT ${[...groups, 'class', 'sum(number) AS number'].join(', ')} ${from(inner.units)}
         GROUP BY ${[...labels, 'class'].join(', ')} ${within}`,
        [...parameters, ...ends]
      )
      addUnits(shown, others, by)
    }
    return { sums: shown, next: rows.length > limit ? shown.at(-1)!.group : undefined }
  } finally {
    database.exec('COMMIT')
  }
}

/** The names of the sums of the inner query. */
const partial = [...sumColumns, 'uncosted']

const totals = [
  ...partial.map((name) => `coalesce(sum(${name}), 0) AS ${name}`),
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
    const whole = ['spender', 'model', 'channel'].every((name) => keys.includes(name)) && query.by.includes('day')
    const grouped = keys.length === 0 || whole ? '' : `GROUP BY ${keys.join(', ')}`
    const added = whole ? plain : partials
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
  ...sumColumns.map((name) => `sum(${name}) AS ${name}`),
  "sum(CASE cost_price WHEN '' THEN charge ELSE 0 END) AS uncosted",
  "max(cost_price <> '') AS costed",
  'max(units IS NOT NULL) AS others'
]

/** The same of a single row. */
const plain = [
  ...sumColumns,
  "CASE cost_price WHEN '' THEN charge ELSE 0 END AS uncosted",
  "cost_price <> '' AS costed",
  'units IS NOT NULL AS others'
]

type Condition = [sql: string, ...values: Value[]]
type Bounds = [since: number | undefined, until: number | undefined]

/** The tables to read, each with the days or months to read of it. */
function spansOf({ by, since, until }: SpendQuery): ['day' | 'month', ...Bounds][] {
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
function textOf(name: SpendGroup, value: Value): string {
  if (name === 'day') return new Date(Number(value) * dayMs).toISOString().slice(0, 10)
  if (name === 'month') return new Date(dayOf(Number(value)) * dayMs).toISOString().slice(0, 7)
  return String(value)
}

function cursorOf(by: readonly SpendGroup[], after: readonly string[]): Value[] {
  return after.map((text, index) => {
    if (by[index] === 'day') return Math.floor(Date.parse(text) / dayMs)
    return by[index] === 'month' ? monthOf(Math.floor(Date.parse(`${text}-01`) / dayMs)) : text
  })
}

function sumOf(row: Row, by: readonly SpendGroup[]): SpendSum & { usage: Record<string, number> } {
  const nano = (name: string): bigint => row[name] as bigint
  return {
    group: by.map((name, index) => textOf(name, row[`group${index}`]!)),
    requests: Number(row['requests']),
    charge: nano('charge'),
    cost: row['costed'] === 1n ? nano('cost') : undefined,
    uncosted: nano('uncosted'),
    failed: nano('failed'),
    usage: Object.fromEntries(commonUnits.map((name) => [name, Number(row[name])]))
  }
}

function addUnits(
  sums: readonly { group: readonly string[]; usage: Record<string, number> }[],
  rows: readonly Row[],
  by: readonly SpendGroup[]
): void {
  const byGroup = new Map(sums.map((sum) => [sum.group.join('\0'), sum]))
  for (const row of rows) {
    const sum = byGroup.get(by.map((name, index) => textOf(name, row[`group${index}`]!)).join('\0'))
    if (sum) sum.usage[String(row['class'])] = Number(row['number'])
  }
}
