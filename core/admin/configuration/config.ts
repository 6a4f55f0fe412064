// The routes of the configuration: show the one in use, and reload the file.
import { resolve } from 'node:path'
import { inWords } from '../../program/changes.ts'
import type { Config } from '../../catalogue/settings.ts'
import { shownPlace } from '../../catalogue/store-place.ts'
import type { ConfigHistory } from '../../program/config-history.ts'
import type { ReloadResult } from '../../program/reload.ts'
import type { AuditEntry } from '../../store/documents.ts'
import { version } from '../../telling/version.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'

/**
 * Shows the configuration without secrets, and with variables as they are written. The command `sluice keys` recognises
 * the gateway of its store by `store`. `nodes` are the gateways that share the store, each with the hash of its
 * configuration.
 */
export function showConfig(_call: Call, { generations, store, reloader: { last } }: AdminParts): Answer {
  const { file, hash, settings, redacted, texts } = generations.current.config
  return {
    json: {
      version,
      file: resolve(file),
      included: texts.slice(1).map((one) => resolve(one.file)),
      hash,
      store: shownPlace(settings.store),
      nodes: store.nodes().map((node) => ({ ...node, since: new Date(node.since).toISOString() })),
      last_reload: last ? show(last) : null,
      config: redacted
    }
  }
}

/**
 * Says what a reload would change, and whether it would be refused. It reads the file as a reload does, with the
 * modules of its plugins.
 */
export async function showDiff(_call: Call, { generations, reloader }: AdminParts): Promise<Answer> {
  const { inUse, onDisk, changes, problems } = await reloader.preview()
  const { file } = generations.current.config
  return { json: { file: resolve(file), in_use: inUse, on_disk: onDisk ?? null, changes, problems } }
}

/**
 * Reloads the file. Answers when the new configuration is in use; with 422 and every problem when it is refused and the
 * old one stays.
 */
export async function reload({ by }: Call, { generations, reloader, store, log }: AdminParts): Promise<Answer> {
  const { file, hash: before } = generations.current.config
  const result = await reloader.reload('admin API', by.id)
  // The file is in use by now, whether this can be written or not.
  await store.documents.change([], reloadEntry(by, file, before, result)).catch((error: Error) => {
    log.error('a reload was not written to the audit log', { error: error.message })
  })
  return showReload(result)
}

/** The answer about a reload, with `more` members. */
export function showReload(result: ReloadResult, more: object = {}): Answer {
  const shown = { ...show(result), ...more }
  if (result.ok) return { json: shown }
  const message = 'The file was not taken over: the configuration in use stays. The problems say what to mend.'
  return {
    status: 422,
    json: { error: { type: 'invalid_request_error', message, code: 'config_refused' }, ...shown }
  }
}

/**
 * Adds a reload to the history of configurations and to the audit log. `before`: the hash until then. What somebody
 * asked for, their route notes in the log itself, as it knows who they are.
 */
export async function noteReload(
  result: ReloadResult,
  before: string,
  config: Config,
  { history, store, log }: Pick<AdminParts, 'store' | 'log'> & { history: Pick<ConfigHistory, 'add'> }
): Promise<void> {
  const { ok, reason, by: asker, hash, changes } = result
  if (ok && (hash !== before || changes.length > 0))
    history.add(config, { reason, by: asker, changes: inWords(changes) })
  if (asker !== null) return
  const by: Actor = { kind: 'gateway', id: reason, address: null, role: 'owner', tenant: null }
  await store.documents.change([], reloadEntry(by, config.file, before, result)).catch((error: Error) => {
    log.error('a reload was not written to the audit log', { error: error.message })
  })
}

/** The entry of the audit log for a reload. */
export function reloadEntry(by: Actor, file: string, before: string, { ok, hash, problems }: ReloadResult): AuditEntry {
  const entry = auditEntry(by, 'config.reload', { kind: 'config', id: resolve(file) }, { hash: before }, { hash })
  if (ok) return entry
  return { ...entry, outcome: 'refused', why: problems.map(({ place, message }) => `${place} ${message}`).join('; ') }
}

function show({ ok, reason, by, time, durationMs, hash, problems, changes }: ReloadResult): object {
  return {
    ok,
    reason,
    by,
    time: new Date(time).toISOString(),
    duration_ms: durationMs,
    hash,
    problems,
    changes: inWords(changes)
  }
}
