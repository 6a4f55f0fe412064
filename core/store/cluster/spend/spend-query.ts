// Answers queries of spend from the sums in PostgreSQL, with the words and the order of the embedded store.
import { cursorOf, spansOf, textOf } from '../../embedded/reader/spend-query.ts'
import { commonUnits, mostSummed } from '../../embedded/database/spend-sums.ts'
import type { SpendGroup, SpendPage, SpendQuery, SpendSum } from '../../spend.ts'
import type { Lane } from '../database/lane.ts'
import { search } from '../database/search.ts'
import { plain } from '../database/text.ts'

/** How long a query may take, in milliseconds, and that it leaves the other processors of the server to money. */
const within = { deadline: 30_000, alone: true }
/** More than the rows of days that a group has which is told apart by all but prices and tags. */
const rowsOfGroup = 2

/** The amounts and counts of a row, in SQL. */
const amounts = ['charge', 'failed', 'cost', "case cost_price when '' then charge else 0 end"]
const sums = [
  ...amounts.map((sql, i) => `sum(${sql})::text as amount${i}`),
  "bool_or(cost_price <> '') as costed",
  'bool_or(units is not null) as others',
  'sum(requests)::float8 as requests',
  ...commonUnits.map((name) => `sum(${name})::float8 as ${name}`)
]

type Row = Record<string, unknown>

/** Returns a page of sums, sorted by their groups. */
export async function querySpend(lane: Lane, query: SpendQuery): Promise<SpendPage> {
  const { by, limit, after } = query
  const asked = new Asked(query)
  const beyond = after ? [asked.compared('>', cursorOf(by, after))] : []
  const rows = (await asked.first(lane, beyond, limit)) ?? (await asked.sums(lane, beyond, limit + 1))
  const page = rows.slice(0, limit)
  const shown = page.map((row) => sumOf(row, by))
  if (page.some((row) => row['others'] === true)) {
    const [first, last] = [page[0]!, page.at(-1)!].map((row) => asked.labels.map((label) => row[label]))
    const again = new Asked(query)
    const between = by.length === 0 ? [] : [again.compared('>=', first!), again.compared('<=', last!)]
    addUnits(shown, await again.units(lane, between), by)
  }
  return { sums: shown, next: rows.length > limit ? shown.at(-1)!.group : undefined }
}

/** The statements of one query. */
class Asked {
  /** The names of the groups, by which they are sorted. */
  readonly labels: readonly string[]
  readonly #whole: boolean
  readonly #groups: readonly string[]
  readonly #from: string
  readonly #where: string
  readonly #values: unknown[] = []

  constructor({ by, equal, tag, since, until }: SpendQuery) {
    this.labels = by.map((_, index) => `group${index}`)
    this.#whole = (['key', 'model', 'channel', 'day'] as const).every((name) => by.includes(name))
    const where: string[] = []
    for (const name of ['model', 'channel', 'tenant', 'project', 'member', 'key'] as const)
      if (equal[name] !== undefined) where.push(`${name} = ${this.#value(plain(equal[name]))}`)
    if (tag)
      where.push(`nullif(tags, '')::jsonb ->> ${this.#value(plain(tag.name))} = ${this.#value(plain(tag.value))}`)
    this.#groups = by.map((name, index) => `${this.#expressionOf(name)} as group${index}`)
    const parts = spansOf({ by, since, until }).map(([table, first, last]) => {
      const bounds = [
        first === undefined ? '' : `and ${table} >= ${first}`,
        last === undefined ? '' : `and ${table} < ${last}`
      ]
      const month = `(extract(year from date '1970-01-01' + day) * 12 + extract(month from date '1970-01-01' + day) - 1)::int`
      const days = by.includes('day') ? ['day'] : []
      const months = by.includes('month') ? [table === 'month' ? 'month' : `${month} as month`] : []
      const columns = [...days, ...months, 'spender', 'model', 'channel', 'price', 'cost_price', 'requests', 'charge']
      const all = [...columns, 'failed', 'cost', ...commonUnits, 'units']
      return `select ${all.join(', ')} from sluice.spend_${table} where true ${bounds.join(' ')}`
    })
    this.#from = `(${parts.join(' union all ')}) sums join sluice.spender on spender.id = sums.spender`
    this.#where = where.map((condition) => `and ${condition}`).join(' ')
  }

  /** The condition on groups that they are sorted before, at or behind a place. */
  compared(how: '>' | '>=' | '<=', place: readonly unknown[]): string {
    return `(${this.labels.join(', ')}) ${how} (${place.map((value) => this.#value(value)).join(', ')})`
  }

  /** The first sums, sorted by their groups. */
  sums(lane: Lane, where: readonly string[], limit: number): Promise<Row[]> {
    return this.#search(
      lane,
      `select ${[...this.labels, ...sums].join(', ')} ${this.#told(where)} ${this.#grouped} limit ${limit}`
    )
  }

  /**
   * The same, one more than the limit, of no more rows than there are likely to be in them: where nearly each row is a
   * group, sorting all of them to add the first up takes most of the time, and disk. Undefined when that does not pay,
   * or these rows were of fewer groups.
   */
  async first(lane: Lane, where: readonly string[], limit: number): Promise<Row[] | undefined> {
    if (!this.#whole) return undefined
    const most = rowsOfGroup * (limit + 1)
    const few = `select * ${this.#told(where)} order by ${this.labels.join(', ')} limit ${most}`
    const columns = [...this.labels, ...sums, 'count(*)::int as of_rows'].join(', ')
    const rows = await this.#search(lane, `select ${columns} from (${few}) few ${this.#grouped} limit ${limit + 1}`)
    // The last group may have rows beyond these.
    const ended = rows.reduce((sum, row) => sum + (row['of_rows'] as number), 0) < most
    return rows.length > limit || ended ? rows : undefined
  }

  /** The units of other classes, a row for each class of a group. */
  units(lane: Lane, where: readonly string[]): Promise<Row[]> {
    const columns = [...this.labels, 'unit.key as class', 'sum(unit.value::numeric)::float8 as number'].join(', ')
    const each = 'cross join lateral jsonb_each_text(units) unit'
    return this.#search(
      lane,
      `select ${columns} ${this.#told(where, each)} group by ${[...this.labels, 'class'].join(', ')}`
    )
  }

  get #grouped(): string {
    const labels = this.labels.join(', ')
    return labels === '' ? '' : `group by ${labels} order by ${labels}`
  }

  #told(where: readonly string[], joined = ''): string {
    const inner = `select ${[...this.#groups, 'sums.*'].join(', ')} from ${this.#from} where true ${this.#where}`
    return `from (${inner}) told ${joined} ${where.length === 0 ? '' : `where ${where.join(' and ')}`}`
  }

  #search(lane: Lane, sql: string): Promise<Row[]> {
    return search<Row>(lane, sql, this.#values, within)
  }

  /** The place of a value in the statement. Numbers stand in it as they are. */
  #value(value: unknown): string {
    return typeof value === 'number' ? String(value) : `$${this.#values.push(value)}::text`
  }

  #expressionOf(name: SpendGroup): string {
    if (name === 'tag') return 'tags'
    if (!name.startsWith('tag:')) return name
    return `(coalesce(nullif(tags, '')::jsonb ->> ${this.#value(plain(name.slice('tag:'.length)))}, '') collate "C")`
  }
}

function sumOf(row: Row, by: readonly SpendGroup[]): SpendSum & { usage: Record<string, number> } {
  const [charge, failed, cost, uncosted] = amounts.map((_, i) => BigInt((row[`amount${i}`] as string | null) ?? 0))
  return {
    group: by.map((name, index) => textOf(name, row[`group${index}`] as string | number)),
    requests: Number(row['requests'] ?? 0),
    charge: charge!,
    cost: row['costed'] === true ? cost! : undefined,
    uncosted: uncosted!,
    failed: failed!,
    usage: Object.fromEntries(commonUnits.map((name) => [name, countOf(row[name])]))
  }
}

function countOf(sum: unknown): number {
  return Math.min(Number(sum ?? 0), mostSummed)
}

function addUnits(
  found: readonly { group: readonly string[]; usage: Record<string, number> }[],
  rows: readonly Row[],
  by: readonly SpendGroup[]
): void {
  const byGroup = new Map(found.map((sum) => [sum.group.join('\0'), sum]))
  for (const row of rows) {
    const name = by.map((group, index) => textOf(group, row[`group${index}`] as string | number)).join('\0')
    const sum = byGroup.get(name)
    if (sum) sum.usage[String(row['class'])] = countOf(row['number'])
  }
}
