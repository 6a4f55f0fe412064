// The command `sluice spend`: what was charged, what it cost and what is left of it, as a table or a file.
import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { spendCsv } from '../admin/exports/spend-csv.ts'
import { readSpend, showSum, spendParameters } from '../admin/requests/spend.ts'
import type { ShownSum } from '../admin/requests/spend.ts'
import { formatDollars } from '../money/money.ts'
import type { Tell } from '../store/embedded/care/tell.ts'
import type { SpendGroup, SpendQuery, SpendSum } from '../store/spend.ts'
import { accessOptions, itemsOf } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { focusGroups, focusLines, focusMetadata } from './output/focus.ts'
import { ownAccess } from './asking/own-access.ts'
import type { AdminAccess } from './asking/remote-admin.ts'
import { Progress } from './output/progress.ts'
import { storeOptions } from './command/store-option.ts'
import { withLedger } from './ledger/open-ledger.ts'
import type { OpenLedger } from './ledger/open-ledger.ts'
import { renderTable } from './output/table.ts'

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
    ...accessOptions,
    ...storeOptions,
    ...jsonOption
  },
  notes: `
With a token of your own, in --token-file or SLUICE_TOKEN, it asks the running gateway; without one it reads the store.

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
    const own = options.db === undefined ? await ownAccess(options) : undefined
    if (own) {
      if (format === 'focus')
        throw new UsageError('--format focus needs the store, with the prices of then: it is for who runs the gateway')
      await write(options.out, format, (tell) => lines(asked.by, askedFor(own, tell, options), format))
      return exits.ok
    }
    return withLedger(options, async (ledger) => {
      await write(options.out, format, (tell) =>
        format === 'focus' ? focus(ledger, asked, tell) : lines(asked.by, kept(ledger, asked, tell), format)
      )
      if (format === 'focus' && options.out !== undefined)
        await writeFile(`${options.out}.metadata.json`, `${JSON.stringify(focusMetadata(new Date()), null, 2)}\n`)
      return exits.ok
    })
  }
})

function isFormat(format: string): format is Format {
  return (formats as readonly string[]).includes(format)
}

type Asked = Omit<SpendQuery, 'limit'>

/** What adding up is called while it goes on. */
const adding = 'adding up'

/** Writes lines to a new file, or to standard output, whose reader may stop before the end, as `head` does. */
async function write(
  file: string | undefined,
  format: Format,
  text: (tell: Tell) => AsyncIterable<string> | Iterable<string>
): Promise<void> {
  const to = (): NodeJS.WritableStream =>
    file === undefined ? process.stdout : createWriteStream(file, { flags: 'wx' })
  const streams = file === undefined && format !== 'table' && format !== 'json'
  try {
    await Progress.of(adding, (tell) => pipeline(Readable.from(text(tell)), to(), { end: file !== undefined }), {
      streams
    })
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (file !== undefined || !['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes(code)) throw error
  }
}

/** The sums that a gateway tells. Who sees one tenant alone is not told what it costs. */
async function* askedFor(
  admin: AdminAccess,
  tell: Tell,
  options: Readonly<Record<(typeof spendParameters)[number], string | undefined>>
): AsyncGenerator<ShownSum> {
  const query = new URLSearchParams()
  for (const name of spendParameters) if (options[name] !== undefined) query.set(name, options[name])
  let done = 0
  for await (const sum of itemsOf<ShownSum>(admin, '/admin/v1/spend', query.toString())) {
    yield sum
    tell(adding, { done: ++done, unit: 'rows' })
  }
}

async function* kept(ledger: OpenLedger, asked: Asked, tell: Tell): AsyncGenerator<ShownSum> {
  for await (const sum of sums(ledger, asked, tell)) yield showSum(asked.by, sum)
}

async function* focus(ledger: OpenLedger, asked: Asked, tell: Tell): AsyncGenerator<string> {
  yield* focusLines(sums(ledger, { ...asked, by: focusGroups }, tell), (version) => ledger.price(version))
}

async function* lines(
  by: readonly SpendGroup[],
  shown: AsyncIterable<ShownSum> | Iterable<ShownSum>,
  format: Exclude<Format, 'focus'>
): AsyncGenerator<string> {
  if (format === 'csv') yield* spendCsv(by, shown)
  else if (format === 'table') yield `${table(by, await all(shown))}\n`
  else if (format === 'json') yield `${JSON.stringify({ data: await all(shown) })}\n`
  else for await (const sum of shown) yield `${JSON.stringify(sum)}\n`
}

/** All sums of a store, some at a time. How many come is known at the end alone. */
async function* sums(ledger: OpenLedger, asked: Asked, tell: Tell): AsyncGenerator<SpendSum> {
  let after: readonly string[] | undefined
  let done = 0
  do {
    const found = await ledger.spend({ ...asked, limit: page, after })
    tell(adding, { done: (done += found.sums.length), unit: 'rows' })
    yield* found.sums
    after = found.next
  } while (after)
}

const amounts = ['charge', 'cost', 'margin', 'uncosted', 'failed'] as const
const counted = ['input', 'cached_input', 'output'] as const

function table(by: readonly SpendGroup[], shown: readonly ShownSum[]): string {
  const figures = (rows: readonly ShownSum[]): string[] => [
    String(rows.reduce((sum, { requests }) => sum + requests, 0)),
    ...amounts.map((name) => totalOf(rows, name)),
    ...counted.map((name) => String(rows.reduce((sum, { usage }) => sum + (usage[name] ?? 0), 0)))
  ]
  const rows = shown.map((sum) => [...by.map((name) => groupText(sum[name])), ...figures([sum])])
  if (by.length > 0) rows.push([...by.map((_, index) => (index === 0 ? 'TOTAL' : '')), ...figures(shown)])
  const numbers = ['REQUESTS', 'CHARGE', 'COST', 'MARGIN', 'UNCOSTED', 'FAILED', 'INPUT', 'CACHED', 'OUTPUT']
  return renderTable(
    [[...by.map((name) => name.toUpperCase()), ...numbers], ...rows],
    new Set(numbers.map((_, index) => by.length + index))
  )
}

async function all(shown: AsyncIterable<ShownSum> | Iterable<ShownSum>): Promise<ShownSum[]> {
  const rows: ShownSum[] = []
  for await (const sum of shown) rows.push(sum)
  return rows
}

/** The sum of an amount; a dash where nobody told it, or told any of it. */
function totalOf(rows: readonly ShownSum[], name: (typeof amounts)[number]): string {
  const told = rows.flatMap((sum) => sum[`${name}_nano`] ?? [])
  return told.length === 0 && rows.length > 0 ? '-' : formatDollars(told.reduce((sum, nano) => sum + BigInt(nano), 0n))
}

function groupText(value: unknown): string {
  return value === null ? '-' : typeof value === 'string' ? value : JSON.stringify(value)
}
