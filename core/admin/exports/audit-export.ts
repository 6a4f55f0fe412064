// The audit log as a file, however many entries it has.
import { hiddenOfAudit, readAudit, showEntry } from '../access/audit-log.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { csvLine } from './csv.ts'
import { checkOwn, download, readFormat, rowsAtOnce, without } from './download.ts'

/** The members of entries, as columns. */
export const auditColumns = [
  'seq',
  'time',
  'action',
  'outcome',
  'actor_kind',
  'actor',
  'actor_name',
  'actor_role',
  'actor_tenant',
  'address',
  'request_id',
  'object_kind',
  'object',
  'tenant',
  'before',
  'after',
  'why',
  'times',
  'hash'
] as const

/** Sends the entries that a query selects, the newest first. */
export function exportAudit(call: Call, parts: AdminParts): Promise<Answer> {
  const format = readFormat(call.query)
  const asked = readAudit(call.query)
  const hidden: readonly string[] = call.by.tenant === null ? [] : hiddenOfAudit
  const columns = auditColumns.filter((name) => !hidden.includes(name))
  async function* rows(): AsyncGenerator<string> {
    for (let before: number | undefined; ;) {
      const found = await parts.store.documents.audit({ ...asked, before, limit: rowsAtOnce }, call.left)
      for (const entry of found.map(showEntry)) {
        checkOwn(entry['tenant'], call)
        if (format === 'csv') yield csvLine(columns.map((name) => entry[name]))
        else yield `${JSON.stringify(without(entry, hidden))}\n`
      }
      if (found.length < rowsAtOnce) return
      before = found.at(-1)!.seq
    }
  }
  const head = format === 'csv' ? { head: csvLine(columns) } : {}
  return download(call, parts, { what: 'audit', format, ...head, rows: rows() })
}
