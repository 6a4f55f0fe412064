// The routes of exports: the request log, spend and the audit log as files.
import { pricedClasses } from '../../money/classes.ts'
import type { RequestRecord } from '../../store/requests.ts'
import type { AdminParts, Answer, Call, LiveRoute } from '../api/contract.ts'
import { closedOfRequests, hiddenOfRequests, readRequests, requestFilters, showRecord } from '../requests/requests.ts'
import { hiddenOfSpend, readSpendQuery, showSum, spendParameters } from '../requests/spend.ts'
import type { ShownSum } from '../requests/spend.ts'
import { csvLine } from './csv.ts'
import { auditParameters, hiddenOfAudit } from '../access/audit-log.ts'
import { checkOwn, download, readFormat, rowsAtOnce, without } from './download.ts'
import { exportAudit } from './audit-export.ts'
import { spendCsv } from './spend-csv.ts'

/** All routes of exports. */
export const exportRoutes: readonly LiveRoute[] = [
  {
    method: 'GET',
    path: '/admin/v1/export/requests',
    summary: 'Sends the records of requests as a file, newest first',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfRequests, closed: closedOfRequests } },
    query: ['format', ...requestFilters],
    answers: { 200: 'text/csv' },
    handle: exportRequests
  },
  {
    method: 'GET',
    path: '/admin/v1/export/spend',
    summary: 'Sends spend as a file, by any groups',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfSpend, closed: ['channel'] } },
    query: ['format', ...spendParameters],
    answers: { 200: 'text/csv' },
    handle: exportSpend
  },
  {
    method: 'GET',
    path: '/admin/v1/export/audit',
    summary: 'Sends who changed what and who was refused as a file, newest first',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfAudit } },
    query: ['format', ...auditParameters],
    answers: { 200: 'text/csv' },
    handle: exportAudit
  }
]

/** The members of a record that are columns as they are. */
const plain = [
  'time',
  'request_id',
  'tenant',
  'project',
  'member',
  'key',
  'model',
  'requested_model',
  'endpoint',
  'client_protocol',
  'channel',
  'channel_protocol',
  'status',
  'error_code',
  'outcome',
  'streamed',
  'cost_usd',
  'cost_nano',
  'usage_source',
  'price_version',
  'first_byte_ms',
  'duration_ms',
  'client_request_id',
  'tags'
] as const satisfies readonly (keyof RequestRecord)[]

const units = [...pricedClasses, 'reasoning'] as const

function exportRequests(call: Call, parts: AdminParts): Promise<Answer> {
  const format = readFormat(call.query)
  const asked = readRequests(call.query, rowsAtOnce)
  const hidden = call.by.tenant === null ? [] : hiddenOfRequests
  const shows = !hidden.includes('attempts')
  const columns = plain.filter((name) => !hidden.includes(name))
  async function* rows(): AsyncGenerator<string> {
    let cursor: string | undefined
    do {
      const found = await parts.store.requests.list({ ...asked, ...(cursor !== undefined && { cursor }) }, call.left)
      for (const record of found.data) {
        checkOwn(record.tenant, call)
        if (format === 'jsonl') yield `${JSON.stringify(without(showRecord(record, parts.store), hidden))}\n`
        else
          yield csvLine([
            ...columns.map((name) => record[name]),
            ...(shows ? [record.attempts.length] : []),
            ...units.map((name) => record.usage?.[name])
          ])
      }
      cursor = found.next ?? undefined
    } while (cursor !== undefined)
  }
  const head = format === 'csv' ? { head: csvLine([...columns, ...(shows ? ['attempts'] : []), ...units]) } : {}
  return download(call, parts, { what: 'requests', format, ...head, rows: rows() })
}

function exportSpend(call: Call, parts: AdminParts): Promise<Answer> {
  const format = readFormat(call.query)
  const asked = readSpendQuery(call.query)
  const hidden = call.by.tenant === null ? [] : hiddenOfSpend
  async function* sums(): AsyncGenerator<ShownSum> {
    let after: readonly string[] | undefined
    do {
      const found = await parts.store.spend({ ...asked, limit: rowsAtOnce, after })
      for (const sum of found.sums) {
        const shown = showSum(asked.by, sum)
        if ('tenant' in shown) checkOwn(shown['tenant'], call)
        yield without(shown, hidden) as ShownSum
      }
      after = found.next
    } while (after)
  }
  const rows = format === 'csv' ? spendCsv(asked.by, sums()) : jsonLines(sums())
  return download(call, parts, { what: 'spend', format, rows })
}

async function* jsonLines(sums: AsyncIterable<ShownSum>): AsyncGenerator<string> {
  for await (const sum of sums) yield `${JSON.stringify(sum)}\n`
}
