// The configuration in use, what came of the last reload, and a way to ask for one.
import type { ReloadResult } from '../reload.ts'
import type { AdminParts, AdminReply, Route } from './contract.ts'

export const configRoutes: readonly Route[] = [
  { method: 'GET', path: '/admin/v1/config', handle: (_request, parts) => current(parts) },
  { method: 'POST', path: '/admin/v1/reload', handle: (_request, parts) => reload(parts) }
]

function current({ generations, reloader }: AdminParts): AdminReply {
  const { file, hash, settings, redacted } = generations.current.config
  return { body: { file, hash, store: settings.store.sqlite, last_reload: reloader.last ? show(reloader.last) : null, config: redacted } }
}

/** Answers when the reload is over, one way or the other. */
async function reload({ reloader }: AdminParts): Promise<AdminReply> {
  const result = await reloader.reload('admin API')
  const body = show(result)
  if (result.ok) return { body }
  const error = { type: 'invalid_request_error', message: 'The configuration was not reloaded: the one in use stays.', code: 'config_rejected' }
  return { status: 422, body: { ...body, error } }
}

function show({ ok, reason, time, durationMs, hash, problems }: ReloadResult) {
  return { ok, reason, time: new Date(time).toISOString(), duration_ms: durationMs, hash, problems }
}
