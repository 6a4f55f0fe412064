// The commands `sluice audit`: who changed what, listed for people, or exported as JSON lines or CSV.
import { auditParameters } from '../admin/access/audit-log.ts'
import type { ShownAuditEntry } from '../admin/access/audit-log.ts'
import type { Page } from '../admin/api/contract.ts'
import { accessOptions, places, withAdmin } from './asking/admin-access.ts'
import type { Tell } from '../store/embedded/care/tell.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import type { Given, Options } from './command/command.ts'
import { auditColumns } from '../admin/exports/audit-export.ts'
import { csvLine } from '../admin/exports/csv.ts'
import type { AdminAccess } from './asking/remote-admin.ts'
import { Progress } from './output/progress.ts'
import { renderTable } from './output/table.ts'

const filterOptions = {
  actor: { value: 'NAME', text: 'only what this one did: an operator, admin.token, a user of this machine' },
  action: { value: 'ACTION', text: 'only this: key.create, operator.change, access.refuse' },
  'object-kind': { value: 'KIND', text: 'only on things of this kind: key, tenant, channel, operator, config' },
  object: { value: 'NAME', text: 'only on the thing of this name' },
  outcome: { value: 'done|refused', text: 'only what was done, or only what was refused' },
  tenant: { value: 'TENANT', text: 'only on what is of this tenant' },
  since: { value: 'TIME', text: 'only from then on: 2026-11-21, 2026-11-21T08:00:00Z' },
  until: { value: 'TIME', text: 'only up to then' }
} as const satisfies Options

type Head = { seq: number; hash: string } | null
type AuditPage = Page<ShownAuditEntry> & { head: Head }

export const listAudit = defineCommand({
  name: 'audit list',
  summary: 'lists who changed what and who was refused, the newest first',
  options: {
    ...filterOptions,
    limit: { value: 'N', text: 'at most so many', default: '50' },
    ...accessOptions,
    ...jsonOption
  },
  notes: `The hash of the newest entry covers all before it: kept elsewhere, it proves that nothing was changed since.${places}`,
  run: async (options) => {
    if (!/^[1-9]\d{0,6}$/.test(options.limit))
      throw new UsageError(`--limit is ${JSON.stringify(options.limit)}: it must be a whole number from 1`)
    return withAdmin(options, async (admin) => {
      const entries: ShownAuditEntry[] = []
      let head: Head = null
      for await (const page of pagesOf(admin, options, Number(options.limit))) {
        entries.push(...page.data)
        head ??= page.head
      }
      process.stdout.write(`${options.json ? JSON.stringify({ data: entries, head }) : table(entries)}\n`)
      if (head) process.stderr.write(`The newest of all entries is ${head.seq}, with the hash ${head.hash}.\n`)
      return exits.ok
    })
  }
})

const formats = ['jsonl', 'csv'] as const

export const exportAudit = defineCommand({
  name: 'audit export',
  summary: 'prints the audit log, the newest first, as JSON lines or CSV',
  options: {
    ...filterOptions,
    format: { value: 'FORMAT', default: 'jsonl', text: 'jsonl or csv' },
    ...accessOptions,
    ...jsonOption
  },
  notes: `In CSV, cells that a spreadsheet would take for a formula begin with a quote; JSON lines are exact. --json is --format jsonl.${places}`,
  run: async (options) => {
    const format = formats.find((known) => known === options.format)
    if (!format) throw new UsageError(`--format is ${JSON.stringify(options.format)}: it must be jsonl or csv`)
    if (options.json && format === 'csv') throw new UsageError('--json and --format csv exclude each other: keep one')
    return withAdmin(options, async (admin) => {
      const lineOf = (entry: ShownAuditEntry): string =>
        format === 'csv' ? csvLine(auditColumns.map((name) => entry[name])) : `${JSON.stringify(entry)}\n`
      const words = 'reading the audit log'
      const write = async (tell: Tell): Promise<void> => {
        if (format === 'csv') process.stdout.write(csvLine(auditColumns))
        let done = 0
        for await (const { data } of pagesOf(admin, options, Infinity)) {
          process.stdout.write(data.map(lineOf).join(''))
          tell(words, { done: (done += data.length), unit: 'rows' })
        }
      }
      await Progress.of(words, write, { streams: true })
      return exits.ok
    })
  }
})

/** The pages of a query, of `most` entries at most. */
async function* pagesOf(
  admin: AdminAccess,
  options: Given<typeof filterOptions>,
  most: number
): AsyncGenerator<AuditPage> {
  const query = new URLSearchParams()
  for (const name of auditParameters) {
    const value = options[name === 'object_kind' ? 'object-kind' : name]
    if (value !== undefined) query.set(name, value)
  }
  for (let left = most; left > 0;) {
    query.set('limit', String(Math.min(left, 1000)))
    const page = await admin.call<AuditPage>('GET', `/admin/v1/audit?${query.toString()}`)
    yield page
    if (page.next === null) return
    left -= page.data.length
    query.set('cursor', page.next)
  }
}

function table(entries: readonly ShownAuditEntry[]): string {
  const text = (value: unknown): string =>
    value === null || value === undefined ? '-' : typeof value === 'string' ? value : JSON.stringify(value)
  const rows = entries.map((entry) => [
    entry.time.slice(0, 19),
    text(entry['actor']),
    text(entry['address']),
    text(entry['action']),
    text(entry['object']).slice(0, 60),
    text(entry['outcome']),
    text(entry['why'] ?? changesIn(entry))
  ])
  return renderTable([['TIME', 'ACTOR', 'FROM', 'ACTION', 'OBJECT', 'OUTCOME', 'CHANGE'], ...rows])
}

/** The members that a change changed: `budget, models`. */
function changesIn({ before, after }: ShownAuditEntry): string | null {
  return before && after ? Object.keys(after).join(', ') : null
}
