// The commands `sluice ledger verify`, `balance` and `export`: check the ledger, show balances and print the journal,
// while the gateway may be running.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { showBalance } from '../../admin/tenancy/balances.ts'
import { formatDollars } from '../../money/money.ts'
import type { Entry } from '../../store/embedded/care/ledger-file.ts'
import type { Balance } from '../../store/ledger.ts'
import { invariants } from '../../store/embedded/care/verify/invariants.ts'
import type { Invariant } from '../../store/embedded/care/verify/invariants.ts'
import { toldAs } from '../../store/embedded/care/tell.ts'
import type { Tell } from '../../store/embedded/care/tell.ts'
import { outcomesOf } from '../../store/embedded/care/verify/verdict.ts'
import { toldOf } from '../../store/embedded/care/verify/checking.ts'
import { daysOf, windowOf } from '../../store/window.ts'
import { convertUnit } from '../../options/units.ts'
import { defineCommand, exits, jsonOption, UsageError } from '../command/command.ts'
import { csvLine } from '../../admin/exports/csv.ts'
import { Progress } from '../output/progress.ts'
import { print, storeOptions } from '../command/store-option.ts'
import { renderTable } from '../output/table.ts'
import { withLedger } from './open-ledger.ts'
import type { OpenLedger } from './open-ledger.ts'

const scopeOption = {
  scope: { value: 'SCOPE', text: 'only of tenant:acme, project:acme/web, member:acme/web/alice or key:laptop' }
} as const

const named: readonly (readonly [name: string, rule: Invariant])[] = Object.entries(invariants)
const shown = { holds: 'holds ', broken: 'BROKEN', tested: 'tested', unchecked: 'not of' } as const

/** How many breaches are shown without `--json`. A broken hash chain has one for each row after it. */
const mostShown = 100

export const verifyLedger = defineCommand({
  name: 'ledger verify',
  summary: 'checks the book and names every row that is wrong',
  options: { ...storeOptions, ...jsonOption },
  notes: `
Reads everything once and changes nothing. These hold, of one moment; each is checked in every row unless it says "tests alone".
What a file cannot show of them is proven by the tests that are named, in the folder test/ of the source:
${named.map(([name, { text, checked, tests }]) => `  ${name.padEnd(3)}  ${text}${tests.length === 0 ? '' : `\n       ${checked ? 'tests' : 'tests alone'}: ${tests.join(', ')}`}`).join('\n')}
I5: the journal has one amount a row. Its two sides follow from it: its scopes are debited, once a level, and what the gateway sold
is credited; a cost is credited to its channel. I10: entries that were sealed are read from their files, in the folder of the
store's name with .journal; one that is missing or was changed is named. I6: the limit is that of the latest request that was let in.
In PostgreSQL, which checks its own files, I8, I11, I12 and I16 to I20 are of files alone, and said to be "not of" it.
Exits with 3 when a row breaks one of them.`,
  run: (options) => withLedger(options, (ledger) => verifyOne(ledger, options.json))
})

async function verifyOne(ledger: OpenLedger, json: boolean): Promise<number> {
  const began = performance.now()
  const checked: Record<string, number> = {}
  const breaches = await Progress.of('checking file', (tell) => {
    const told = toldOf(tell)
    return ledger.verify((table, rows, of) => {
      if (rows !== undefined) checked[table] = rows
      told(table, rows, of)
    })
  })
  const seconds = (performance.now() - began) / 1000
  const ok = breaches.length === 0
  const outcomes = outcomesOf(breaches, ledger.invariants)
  if (json) {
    print(
      JSON.stringify({
        ok,
        file: ledger.shown,
        checked,
        invariants: outcomes,
        breaches,
        seconds: Number(seconds.toFixed(3))
      })
    )
    return ok ? exits.ok : exits.found
  }
  for (const { invariant, row, message } of breaches.slice(0, mostShown)) print(`${invariant} ${row}: ${message}`)
  if (breaches.length > mostShown) print(`and ${breaches.length - mostShown} more: --json shows all`)
  print(
    `${ledger.shown}: ${Object.entries(checked)
      .map(([table, rows]) => `${table} ${grouped(rows)}`)
      .join(', ')} rows read in ${seconds.toFixed(2)} s`
  )
  for (const { name, text, result, breaches: broken, first, tests } of outcomes) {
    const detail =
      result === 'broken'
        ? ` (${grouped(broken)} times, first ${first})`
        : result === 'tested'
          ? ` (by ${tests.join(', ')})`
          : ''
    print(`${shown[result]}  ${name.padEnd(3)}  ${text}${detail}`)
  }
  return ok ? exits.ok : exits.found
}

export const showBalances = defineCommand({
  name: 'ledger balance',
  summary: 'shows what was spent, what is held and what is left',
  options: { ...scopeOption, all: { text: 'past windows too' }, ...storeOptions, ...jsonOption },
  notes: `
In US dollars, for the day, the week, the month (UTC), the last days of rolling budgets and all time, as of the last commit. Posted was charged; pending is held by
requests under way. A limit is that of the last request that counted; the admin API shows those of the configuration.`,
  run: ({ scope, all, json, ...given }) =>
    withLedger(given, async (ledger) => {
      const now = Date.now()
      const current = new Set((['day', 'week', 'month', 'total'] as const).map((span) => windowOf(span, now)))
      const found = await Progress.of('reading balances', () => ledger.balances(now))
      const balances = found.filter(
        (balance) =>
          (scope === undefined || balance.scope === scope) &&
          (daysOf(balance.window) === undefined ? all || current.has(balance.window) : balance.limit !== undefined)
      )
      print(json ? JSON.stringify({ data: balances.map(showBalance) }) : balanceTable(balances))
      return exits.ok
    })
})

const formats = ['jsonl', 'csv'] as const

export const exportLedger = defineCommand({
  name: 'ledger export',
  summary: 'writes the journal on standard output',
  options: {
    format: { value: 'FORMAT', default: 'jsonl', text: 'jsonl or csv' },
    since: { value: 'DATE', text: 'requests that arrived from then on: 2026-11-01 or 2026-11-01T12:00:00Z' },
    until: { value: 'DATE', text: 'requests that arrived before' },
    ...scopeOption,
    ...storeOptions,
    ...jsonOption
  },
  notes: `
One row for each end of a request and each cost of a failed attempt, oldest first; where several gateways share the store, by the day
of arrival, and those of a day by the node that wrote them. Amounts are there twice: in dollars, and in
nano-dollars to compute with; both as text, so that no program rounds them. --json is --format jsonl.`,
  async run(options) {
    const { format, json, scope } = options
    if (!formats.some((known) => known === format))
      throw new UsageError(`--format is ${JSON.stringify(format)}: it must be jsonl or csv`)
    if (json && format === 'csv') throw new UsageError('--json and --format csv exclude each other: keep one')
    const filter = { since: readTime('since', options.since), until: readTime('until', options.until), scope }
    return withLedger(options, async (ledger) => {
      const write = (tell: Tell): Promise<void> => {
        const entries = ledger.entries(filter, toldAs(tell, 'writing the journal'))
        const columns = columnsOf(ledger)
        const lines = format === 'csv' ? csv(entries, columns) : jsonLines(entries, columns)
        return pipeline(Readable.from(lines), process.stdout, { end: false })
      }
      try {
        await Progress.of('reading the journal', write, { streams: true })
      } catch (error) {
        // The reader of the output may stop before the end, as `head` does.
        if (!['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      }
      return exits.ok
    })
  }
})

function readTime(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const time = convertUnit('date', text)
  if (typeof time !== 'number')
    throw new UsageError(
      `--${option} is ${JSON.stringify(text)}: it must be a date like 2026-11-01 or 2026-11-01T12:00:00Z`
    )
  return time
}

function grouped(rows: number): string {
  return rows.toLocaleString('en-US')
}

function balanceTable(balances: readonly Balance[]): string {
  const rows = balances.map(({ scope, window, limit, posted, pending }) => [
    scope,
    window,
    ...[limit, posted, pending, limit === undefined ? undefined : limit - posted - pending].map((nano) =>
      nano === undefined ? '-' : formatDollars(nano)
    )
  ])
  return renderTable([['SCOPE', 'WINDOW', 'LIMIT', 'POSTED', 'PENDING', 'LEFT'], ...rows], new Set([2, 3, 4, 5]))
}

/** The columns of an export, by name. */
const columns: Readonly<Record<string, (entry: Entry) => unknown>> = {
  seq: ({ seq }) => seq,
  time: ({ time }) => new Date(time).toISOString(),
  kind: ({ kind }) => kind,
  request_id: ({ requestId }) => requestId,
  part: ({ part }) => part,
  class: (entry) => entry.class,
  scopes: ({ scopes }) => scopes,
  amount_usd: ({ amount }) => formatDollars(amount),
  amount_nano: ({ amount }) => String(amount),
  reserved_usd: ({ reserved }) => formatDollars(reserved),
  reserved_nano: ({ reserved }) => String(reserved),
  usage: ({ usage }) => usage,
  model: ({ model }) => model,
  channel: ({ channel }) => channel,
  price_version: ({ priceVersion }) => priceVersion,
  source: ({ source }) => source,
  tags: ({ tags }) => tags,
  cost_usd: ({ cost }) => (cost === null ? null : formatDollars(cost)),
  cost_nano: ({ cost }) => (cost === null ? null : String(cost)),
  cost_price: ({ costPrice }) => costPrice,
  boot: ({ boot }) => boot,
  hash: ({ hash }) => hash
}

type Columns = typeof columns

/** The columns of a ledger: where several gateways write it, `seq` counts for each start of one. */
function columnsOf({ invariants: some }: OpenLedger): Columns {
  return some ? { ...columns, node: ({ node }) => node } : columns
}

async function* jsonLines(entries: AsyncIterable<Entry>, shape: Columns): AsyncGenerator<string> {
  const names = Object.entries(shape)
  yield* chunked(
    entries,
    (entry) => `${JSON.stringify(Object.fromEntries(names.map(([name, read]) => [name, read(entry)])))}\n`
  )
}

/** Renders entries as CSV (RFC 4180). */
async function* csv(entries: AsyncIterable<Entry>, shape: Columns): AsyncGenerator<string> {
  yield csvLine(Object.keys(shape))
  const reads = Object.values(shape)
  yield* chunked(entries, (entry) => csvLine(reads.map((read) => read(entry))))
}

/** Joins rows into chunks, so that a system call writes many of them. */
async function* chunked(entries: AsyncIterable<Entry>, render: (entry: Entry) => string): AsyncGenerator<string> {
  let chunk = ''
  for await (const entry of entries) {
    chunk += render(entry)
    if (chunk.length < 65_536) continue
    yield chunk
    chunk = ''
  }
  if (chunk !== '') yield chunk
}
