// Checks that the audit log is a whole chain, and ends where the book says (I16).
import type { Report } from '../../../embedded/care/verify/invariants.ts'
import { auditHash } from '../../../embedded/journal/journal.ts'
import type { Transaction } from '../../database/lane.ts'
import { rowsOf } from './rows.ts'

/** Checks I16 of the audit log. */
export async function checkAudit(transaction: Transaction, report: Report): Promise<void> {
  const { rows } = await transaction.query<{ audits: bigint; audit_hash: string }>(
    'select audits, audit_hash from sluice.book'
  )
  let last = ''
  let seq = 0
  for await (const row of rowsOf(transaction, 'select seq, time, json, hash from sluice.audit order by seq')) {
    last = auditHash(last, ++seq, Number(row['time']), row['json'] as string)
    if (Number(row['seq']) !== seq || row['hash'] !== last)
      return report('I16', `audit ${row['seq']}`, 'is not what was written')
  }
  const { audits, audit_hash: hash } = rows[0]!
  if (seq !== Number(audits) || last !== hash) report('I16', 'audit', `has ${seq} rows where ${audits} were written`)
}
