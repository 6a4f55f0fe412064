// The settings that hold from the start to the end of a process: what of them a new file changes.
import { isDeepStrictEqual } from 'node:util'
import type { Limits, Settings } from '../catalogue/settings.ts'
import { isMap } from '../options/schema-check.ts'

/** The limits that exchanges read anew each time. The others are fixed in the server and its memory at the start. */
const live: readonly (keyof Limits)[] = [
  'jsonBody',
  'multipartBody',
  'lameDuck',
  'drainTimeout',
  'clientBody',
  'onDisconnect',
  'disconnectDrain',
  'realtime',
  'perTenant'
]

/** The names in the file of changed settings that a reload cannot apply, as it can certificates and regular backups. */
export function fixedChanges(before: Settings, after: Settings): string[] {
  const limits = { ...after.limits, ...Object.fromEntries(live.map((name) => [name, before.limits[name]])) }
  const listen = { ...after.listen, tls: after.listen.tls && (before.listen.tls ?? after.listen.tls) }
  const store = { ...after.store, backups: before.store.backups }
  const names = changes(before, { ...after, limits, listen, store }, '')
  // These may be a text in the file, or a map.
  return [...new Set(names.map((name) => name.replace(/^(store\.(?:postgres|redis))\..*/, '$1')))]
}

function changes(before: unknown, after: unknown, name: string): string[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isMap(before) || !isMap(after)) return [name]
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
    changes(
      before[key],
      after[key],
      `${name === '' ? '' : `${name}.`}${key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`
    )
  )
}
