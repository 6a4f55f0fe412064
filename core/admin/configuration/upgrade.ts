// The route that has the next process take the place of this one.
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { GatewayError } from '../../errors.ts'

/**
 * Starts the next process and hands over to it. Answers when that serves, or with 409 and the reason when this one
 * serves on.
 */
export async function upgrade({ by }: Call, { upgrade: run, store, log }: AdminParts): Promise<Answer> {
  const result = await run('admin API')
  const shown = result.ok
    ? { ok: true, pid: result.pid, generation: result.generation, gap_ms: result.gapMs }
    : { ok: false, reason: result.reason }
  const entry = auditEntry(by, 'gateway.upgrade', { kind: 'gateway', id: String(process.pid) }, undefined, shown)
  await store.documents.change([], entry).catch((error: Error) => {
    log.error('an upgrade was not written to the audit log', { error: error.message })
  })
  if (!result.ok) throw refused(result.reason)
  return { json: shown }
}

function refused(reason: string): GatewayError {
  const message = `The gateway serves on as it is: ${reason}.`
  return new GatewayError('invalid_request', message, { status: 409, shownCode: 'upgrade_refused' })
}
