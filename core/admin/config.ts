// The routes of the configuration: show the one in use, and reload the file.
import { resolve } from 'node:path'
import type { ReloadResult } from '../program/reload.ts'
import { version } from '../telling/version.ts'
import type { AdminParts, Answer, Call } from './contract.ts'

/**
 * Shows the configuration without secrets, and with variables as they are written. The command `sluice keys` recognises
 * the gateway of its store by `store`.
 */
export function showConfig(_call: Call, { generations, reloader: { last } }: AdminParts): Answer {
  const { file, hash, settings, redacted } = generations.current.config
  return {
    json: {
      version,
      file: resolve(file),
      hash,
      store: settings.store.sqlite,
      last_reload: last ? show(last) : null,
      config: redacted
    }
  }
}

/**
 * Reloads the file. Answers when the new configuration is in use; with 422 and every problem when it is refused and the
 * old one stays.
 */
export async function reload(_call: Call, { reloader }: AdminParts): Promise<Answer> {
  const result = await reloader.reload('admin API')
  if (result.ok) return { json: show(result) }
  const message = 'The file was not taken over: the configuration in use stays. The problems say what to mend.'
  return {
    status: 422,
    json: { error: { type: 'invalid_request_error', message, code: 'config_refused' }, ...show(result) }
  }
}

function show({ ok, reason, time, durationMs, hash, problems }: ReloadResult): object {
  return { ok, reason, time: new Date(time).toISOString(), duration_ms: durationMs, hash, problems }
}
