// The routes of verifying the ledger: begin it, see how far it is and what came of it, and cancel it.
import { formatDollars } from '../../money/money.ts'
import type { Verified } from '../../program/verification.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { conflict, showTime } from '../api/entry.ts'
import { amount, count, listOf, mapOf, nullable, number, object, oneOf, said, text, time } from '../api/shape.ts'

/** Begins a verification. */
async function startVerification(call: Call, parts: AdminParts): Promise<Answer> {
  if (!parts.verification.start(call.by.id))
    throw conflict('verification_running', 'The ledger is being verified: wait for its end, or cancel it.', 'ledger')
  await note(call.by, 'ledger.verify', parts)
  return { status: 202, ...shown(parts) }
}

/** Says how far the verification under way is, and what came of the last ten. */
function showVerification(_call: Call, parts: AdminParts): Answer {
  return shown(parts)
}

/** Cancels the verification under way. */
async function cancelVerification({ by }: Call, parts: AdminParts): Promise<Answer> {
  if (!parts.verification.cancel(by.id))
    throw conflict('verification_not_running', 'The ledger is not being verified.', 'ledger')
  await note(by, 'ledger.verify_cancel', parts)
  return shown(parts)
}

async function note(by: Actor, action: string, { store, log }: AdminParts): Promise<void> {
  const entry = auditEntry(by, action, { kind: 'ledger', id: 'ledger' }, undefined, undefined)
  await store.documents.change([], entry).catch((error: Error) => {
    log.error('a verification was not noted in the audit log', { error: error.message })
  })
}

function shown({ verification: { running, results } }: AdminParts): { json: object } {
  return {
    json: {
      running: running
        ? {
            by: running.by,
            started: showTime(running.started),
            table: running.step.table,
            rows: running.step.rows,
            of: running.step.of,
            rows_per_second: running.perSecond === null ? null : Math.round(running.perSecond),
            left_ms: running.leftMs === null ? null : Math.round(running.leftMs)
          }
        : null,
      results: results.map(showResult)
    }
  }
}

function showResult({ id, by, started, ended, outcome, why, found }: Verified): object {
  const drift = found ? BigInt(found.drift_nano) : null
  return {
    id,
    by,
    started: showTime(started),
    ended: showTime(ended),
    outcome,
    why,
    checked: found?.checked ?? null,
    invariants: found?.invariants ?? null,
    breaches: found?.breaches ?? null,
    broken: found?.broken ?? null,
    drift_usd: drift === null ? null : formatDollars(drift),
    drift_nano: drift === null ? null : String(drift)
  }
}

const state = object({
  running: said(
    nullable(
      object({
        by: text,
        started: time,
        table: text,
        rows: said(nullable(count), 'Rows of this table that were checked.'),
        of: said(nullable(count), 'Of how many; null when that is not known.'),
        rows_per_second: nullable(count),
        left_ms: said(nullable(count), 'Until this table is done, at this rate.')
      })
    ),
    'Null when none is under way.'
  ),
  results: said(
    listOf(
      object({
        id: count,
        by: text,
        started: time,
        ended: time,
        outcome: oneOf('holds', 'broken', 'failed', 'cancelled'),
        why: said(nullable(text), 'Why it failed, or who cancelled it.'),
        checked: said(nullable(mapOf(number)), 'Rows by table.'),
        invariants: nullable(
          listOf(
            object({
              name: text,
              text,
              result: oneOf('holds', 'broken', 'tested', 'unchecked'),
              breaches: count,
              first: nullable(text)
            })
          )
        ),
        breaches: said(
          nullable(
            listOf(
              object({ invariant: text, row: text, message: text, drift_nano: text }, { optional: ['drift_nano'] })
            )
          ),
          'The first hundred.'
        ),
        broken: said(nullable(count), 'How many there are.'),
        ...amount('drift')
      })
    ),
    'The last ten, newest first.'
  )
})

const path = '/admin/v1/ledger/verify'

/** The routes. */
export const ledgerRoutes: readonly Route[] = [
  {
    method: 'POST',
    path,
    summary: 'Begins to verify the ledger, beside the running gateway',
    access: { needs: 'operate' },
    query: [],
    answers: { 202: state },
    handle: startVerification
  },
  {
    method: 'GET',
    path,
    summary: 'Says how far the verification is, and what came of the last ones',
    access: { needs: 'see' },
    query: [],
    answers: { 200: state },
    handle: showVerification
  },
  {
    method: 'DELETE',
    path,
    summary: 'Cancels the verification under way',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: state },
    handle: cancelVerification
  }
]
