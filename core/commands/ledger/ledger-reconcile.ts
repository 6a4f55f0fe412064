// The command `sluice ledger reconcile`: compares the journal with what an upstream says it counted and charges.
import { readFileSync } from 'node:fs'
import { plugins } from '../../../plugins/index.ts'
import type { Config } from '../../catalogue/settings.ts'
import { convertUnit } from '../../options/units.ts'
import { readConfig } from '../../program/configuration.ts'
import type { Entry } from '../../store/embedded/care/ledger-file.ts'
import { toldAs } from '../../store/embedded/care/tell.ts'
import { femto, readBill } from './bills.ts'
import type { Bill, Provider } from './bills.ts'
import { defineCommand, exits, jsonOption, UsageError } from '../command/command.ts'
import { compare } from './comparison.ts'
import type { Comparison, Difference } from './comparison.ts'
import { Progress } from '../output/progress.ts'
import { print, storeOptions } from '../command/store-option.ts'
import { withLedger } from './open-ledger.ts'
import { renderTable } from '../output/table.ts'

const dayMs = 86_400_000

export const reconcileLedger = defineCommand({
  name: 'ledger reconcile',
  summary: "compares the journal with an upstream's usage or invoice",
  operands: ['FILE'],
  options: {
    channel: {
      value: 'NAME',
      text: 'the channel that the file is of; otherwise all that speak the protocol of its upstream'
    },
    provider: { value: 'NAME', text: 'openai or anthropic; otherwise the form of the file tells' },
    since: { value: 'DAY', text: 'from this day on, in UTC; otherwise the first day of the file' },
    until: { value: 'DAY', text: 'before this day; otherwise the day after the last one of the file' },
    ...storeOptions,
    ...jsonOption
  },
  notes: `
FILE has pages of OpenAI's /v1/organization/costs and /usage/completions, or of Anthropic's /v1/organizations/cost_report and
/usage_report/messages, one behind the other, in a list, or a line each; or it is a CSV export of their consoles. Ask for days (1d),
usage by model, and costs by line_item (OpenAI) or description (Anthropic). Usage and costs may be in one file.

Compared are, by day, model and class of units, first quantities and then amounts, digit by digit; Anthropic's amounts may be rounded
by half of their last digit, but by no more than 0.00005 dollars a line:
  only ours, only theirs   the other side has nothing of it
  quantity                 both counted, and not the same; of ours is said what nobody counted upstream (estimated, recovered, …)
  price                    the same quantity for another amount than channels.*.cost makes of it
Lines on days that are not compared are outside the period. There is no verdict on the last day of the file, of which late data may
still come. A request counts on the day on which it arrived; upstreams may count it on the day on which it ended. Where the
configuration does not say what a channel costs, amounts are not compared. With --db and without --channel all channels count.
Exits with 3 when there is a difference.`,
  async run({ channel, provider, since, until, db, config: path, json }, [name]) {
    if (provider !== undefined && provider !== 'openai' && provider !== 'anthropic')
      throw new UsageError(`--provider is ${JSON.stringify(provider)}: it must be openai or anthropic`)
    const bill = readFile(name!, provider)
    const days = [...bill.days].sort()
    const [from, to] = [dayOf('since', since) ?? days[0]!, dayBefore(dayOf('until', until)) ?? days.at(-1)!]
    if (from > to) throw new UsageError(`the period ends before it begins: from ${from} to ${to}`)
    const config = db === undefined ? (await readConfig({ file: path, env: process.env, plugins })).config : undefined
    if (channel !== undefined && config && !config.channels.has(channel))
      throw new UsageError(
        `--channel is ${JSON.stringify(channel)}: known are ${[...config.channels.keys()].join(', ')}`
      )
    return withLedger({ db, config: path }, async (ledger) => {
      const found = await Progress.of('reading the journal', (tell) => {
        const filter = { since: Date.parse(from), until: Date.parse(to) + dayMs }
        return compare(bill, {
          entries: ofChannels(
            ledger.entries(filter, toldAs(tell, 'reading the journal')),
            channelsOf(channel, bill.provider, config)
          ),
          priceOf: remembered((version) => ledger.price(version)),
          upstreamName: ({ model, channel: of }) =>
            config?.channels.get(of ?? '')?.models.get(model ?? '') ?? model ?? '',
          from,
          to
        })
      })
      if (json) print(JSON.stringify(shown(found, bill)))
      else for (const line of told(found, bill)) print(line)
      return found.differences.length > 0 ? exits.found : exits.ok
    })
  }
})

function readFile(name: string, provider: Provider | undefined): Bill {
  try {
    return readBill(readFileSync(name, 'utf8'), provider)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}

function dayOf(option: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const time = convertUnit('date', text)
  if (typeof time !== 'number' || time % dayMs !== 0)
    throw new UsageError(`--${option} is ${JSON.stringify(text)}: it must be a day in UTC like 2026-11-21`)
  return text.slice(0, 10)
}

function dayBefore(day: string | undefined): string | undefined {
  return day === undefined ? undefined : new Date(Date.parse(day) - dayMs).toISOString().slice(0, 10)
}

/** The channels whose entries are compared; undefined for all. */
function channelsOf(
  channel: string | undefined,
  provider: Provider,
  config: Config | undefined
): ReadonlySet<string> | undefined {
  if (channel !== undefined) return new Set([channel])
  if (!config) return undefined
  return new Set([...config.channels.values()].filter(({ protocol }) => protocol === provider).map(({ name }) => name))
}

async function* ofChannels(
  entries: AsyncIterable<Entry>,
  channels: ReadonlySet<string> | undefined
): AsyncGenerator<Entry> {
  for await (const entry of entries) if (!channels || channels.has(entry.channel ?? '')) yield entry
}

function remembered<T>(find: (name: string) => T): (name: string) => T {
  const found = new Map<string, T>()
  return (name) => {
    if (!found.has(name)) found.set(name, find(name))
    return found.get(name)!
  }
}

function amountOf({ money }: Difference, value: bigint | undefined): string | null {
  if (value === undefined) return null
  if (!money) return String(value)
  const sign = value < 0n ? '-' : ''
  const digits = String(value < 0n ? -value : value).padStart(String(femto).length, '0')
  return `${sign}${digits.slice(0, -15)}.${digits.slice(-15)}`.replace(/\.?0+$/, '')
}

function shown({ differences, pending, ...rest }: Comparison, { provider }: Bill): object {
  const rows = (list: readonly Difference[]): object[] =>
    list.map(({ money, ours, theirs, reason, ...place }) => ({
      ...place,
      unit: money ? 'usd' : 'units',
      ours: amountOf({ money } as Difference, ours),
      theirs: amountOf({ money } as Difference, theirs),
      reason: reason ?? null
    }))
  return { ok: differences.length === 0, provider, ...rest, differences: rows(differences), pending: rows(pending) }
}

function* told(
  { from, to, differences, pending, outside, equal, uncosted }: Comparison,
  bill: Bill
): Generator<string> {
  if (differences.length > 0) yield table(differences)
  if (pending.length > 0) {
    yield `\nNo verdict on the last day, of which late data may still come:`
    yield table(pending)
  }
  const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`
  yield `${bill.provider}, ${from} to ${to}: ${count(differences.length, 'difference')}, ${equal} equal, ${pending.length} on the last day`
  if (outside > 0) yield `${count(outside, 'line')} of the file ${outside === 1 ? 'is' : 'are'} outside the period`
  if (uncosted > 0)
    yield `${count(uncosted, 'request')} cost what is not known (channels.*.cost): amounts of their models were not compared`
}

function table(differences: readonly Difference[]): string {
  const rows = differences.map((difference) => [
    difference.day,
    difference.model,
    difference.class,
    difference.kind,
    amountOf(difference, difference.ours) ?? '-',
    amountOf(difference, difference.theirs) ?? '-',
    difference.money ? 'USD' : 'units',
    difference.reason ?? ''
  ])
  return renderTable([['DAY', 'MODEL', 'CLASS', 'DIFFERENCE', 'OURS', 'THEIRS', 'OF', ''], ...rows], new Set([4, 5]))
}
