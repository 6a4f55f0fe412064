// The command `sluice spend`: what was charged, what it cost and what is left of it, as a table or a file.
import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { marginOf, readSpend, showSum } from '../admin/spend.ts'
import { pricedClasses } from '../money/classes.ts'
import { formatDollars } from '../money/money.ts'
import { LedgerFile } from '../store/ledger-file.ts'
import type { SpendGroup, SpendQuery, SpendSum } from '../store/spend.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command.ts'
import { csvLine } from './csv.ts'
import { focusGroups, focusLines, focusMetadata } from './focus.ts'
import { noteLog, storeOf, storeOptions } from './store-option.ts'
import { renderTable } from './table.ts'

const formats = ['table', 'csv', 'json', 'jsonl', 'focus'] as const
type Format = (typeof formats)[number]

/** How many sums are read at a time. */
const page = 10_000

export const showSpend = defineCommand({
  name: 'spend',
  summary: 'shows what was charged, what it cost and what is left of it',
  options: {
    by: {
      value: 'GROUPS',
      text: 'tenant, project, member, key, model, channel, tag, tag:NAME, day, month; a list like key,day'
    },
    since: { value: 'DAY', text: 'from this day on, in UTC: 2026-11-01' },
    until: { value: 'DAY', text: 'before this day' },
    tenant: { value: 'NAME', text: 'only of this tenant' },
    project: { value: 'NAME', text: 'only of this project' },
    member: { value: 'NAME', text: 'only of this member' },
    key: { value: 'NAME', text: 'only of this key' },
    model: { value: 'NAME', text: 'only of this model' },
    channel: { value: 'NAME', text: 'only of this channel' },
    tag: { value: 'NAME:VALUE', text: 'only with this tag' },
    format: { value: 'FORMAT', default: 'table', text: 'table, csv, json, jsonl or focus' },
    out: { value: 'FILE', text: 'writes a new file instead of standard output' },
    ...storeOptions,
    ...jsonOption
  },
  notes: `
In US dollars, as of the last commit. CHARGE is what customers pay. COST is what the upstreams charge, failed attempts included, as
far as the configuration says it (channels.*.cost), and MARGIN what is left; UNCOSTED is the part of the charge whose cost is not
known. So the charge is the cost, the margin and what is uncosted together. FAILED is what failed attempts are worth at the customers'
prices, which nobody pays. A request counts on the day on which it arrived (UTC), and with the tags that its key had then.

csv has all classes of units; cells that a spreadsheet would take for a formula begin with a quote. json is one object, jsonl a line
for each sum; --json is --format json. Both have amounts in nano-dollars too, as text.

focus is CSV with the columns of FOCUS 1.2, and ServiceProviderName and HostProviderName of 1.3: a row for each day, key, model and
class of units, whatever --by says. The tenant is the sub-account. Of a request that paid for several classes each has its share by
the price; the shares add up to the charge. With --out FILE the version and columns are in FILE.metadata.json.`,
  async run(options) {
    const format = options.json ? 'json' : options.format
    if (!isFormat(format))
      throw new UsageError(`--format is ${JSON.stringify(format)}: it must be ${formats.join(', ')}`)
    if (options.json && !['table', 'json'].includes(options.format))
      throw new UsageError(`--json and --format ${options.format} exclude each other: keep one`)
    if (format === 'focus' && options.by !== undefined)
      throw new UsageError('--by and --format focus exclude each other: FOCUS has groups of its own')
    const asked = readSpend(
      (name) => options[name],
      (name, message) => {
        throw new UsageError(`--${name} ${message}`)
      }
    )
    const file = await storeOf(options)
    const ledger = new LedgerFile(file)
    try {
      await write(options.out, lines(ledger, asked, format))
      if (format === 'focus' && options.out !== undefined)
        await writeFile(`${options.out}.metadata.json`, `${JSON.stringify(focusMetadata(new Date()), null, 2)}\n`)
    } finally {
      ledger.close()
    }
    noteLog(file)
    return exits.ok
  }
})

function isFormat(format: string): format is Format {
  return (formats as readonly string[]).includes(format)
}

type Asked = Omit<SpendQuery, 'limit'>

/** Writes lines to a new file, or to standard output, whose reader may stop before the end, as `head` does. */
async function write(file: string | undefined, lines: Iterable<string>): Promise<void> {
  if (file !== undefined) return pipeline(Readable.from(lines), createWriteStream(file, { flags: 'wx' }))
  try {
    await pipeline(Readable.from(lines), process.stdout, { end: false })
  } catch (error) {
    if (!['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

function* lines(ledger: LedgerFile, asked: Asked, format: Format): Generator<string> {
  const { by } = asked
  if (format === 'focus')
    yield* focusLines(sums(ledger, { ...asked, by: focusGroups }), (version) => ledger.price(version))
  else if (format === 'csv') yield* csv(by, sums(ledger, asked))
  else if (format === 'table') yield `${table(by, [...sums(ledger, asked)])}\n`
  else if (format === 'json')
    yield `${JSON.stringify({ data: [...sums(ledger, asked)].map((sum) => showSum(by, sum)) })}\n`
  else for (const sum of sums(ledger, asked)) yield `${JSON.stringify(showSum(by, sum))}\n`
}

/** All sums, some at a time. */
function* sums(ledger: LedgerFile, asked: Asked): Generator<SpendSum> {
  let after: readonly string[] | undefined
  do {
    const found = ledger.spend({ ...asked, limit: page, after })
    yield* found.sums
    after = found.next
  } while (after)
}

const units = [...pricedClasses, 'reasoning'] as const

function* csv(by: readonly SpendGroup[], sums: Iterable<SpendSum>): Generator<string> {
  let columns: string[] | undefined
  for (const sum of sums) {
    const { usage, ...row } = showSum(by, sum)
    if (!columns) yield csvLine([...(columns = Object.keys(row)), ...units])
    yield csvLine([...columns.map((name) => row[name]), ...units.map((name) => sum.usage[name] ?? 0)])
  }
  if (!columns) yield csvLine([...by, 'requests', 'charge_usd'])
}

function table(by: readonly SpendGroup[], sums: readonly SpendSum[]): string {
  const dollars = (nano: bigint | undefined): string => (nano === undefined ? '-' : formatDollars(nano))
  const amounts = (sum: SpendSum): string[] => [
    String(sum.requests),
    dollars(sum.charge),
    dollars(sum.cost),
    dollars(marginOf(sum)),
    dollars(sum.uncosted),
    dollars(sum.failed),
    String(sum.usage.input ?? 0),
    String(sum.usage.cached_input ?? 0),
    String(sum.usage.output ?? 0)
  ]
  const rows = sums.map((sum) => [...sum.group.map((name) => name || '-'), ...amounts(sum)])
  if (by.length > 0) rows.push([...by.map((_, index) => (index === 0 ? 'TOTAL' : '')), ...amounts(total(sums))])
  const numbers = ['REQUESTS', 'CHARGE', 'COST', 'MARGIN', 'UNCOSTED', 'FAILED', 'INPUT', 'CACHED', 'OUTPUT']
  return renderTable(
    [[...by.map((name) => name.toUpperCase()), ...numbers], ...rows],
    new Set(numbers.map((_, index) => by.length + index))
  )
}

function total(sums: readonly SpendSum[]): SpendSum {
  const all = { group: [], requests: 0, charge: 0n, cost: undefined as bigint | undefined, uncosted: 0n, failed: 0n }
  const usage: Record<string, number> = {}
  for (const sum of sums) {
    all.requests += sum.requests
    all.charge += sum.charge
    if (sum.cost !== undefined) all.cost = (all.cost ?? 0n) + sum.cost
    all.uncosted += sum.uncosted
    all.failed += sum.failed
    for (const [name, number] of Object.entries(sum.usage)) usage[name] = (usage[name] ?? 0) + number
  }
  return { ...all, usage }
}
