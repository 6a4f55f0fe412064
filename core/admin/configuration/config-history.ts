// The routes of the configurations that were in use: list them, show one, and put one back.
import { resolve } from 'node:path'
import { GatewayError } from '../../errors.ts'
import type { PastConfig, PastEntry } from '../../program/config-history.ts'
import { ReplacementRefused } from '../../program/replacement.ts'
import { rollBack } from '../../program/rollback.ts'
import { showReload, reloadEntry } from './config.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { conflict, readEntry } from '../api/entry.ts'
import { pageOf, shown } from '../api/query.ts'

/** What is put back. */
export const rollbackFields = {
  hash: {
    type: 'string',
    pattern: '^[0-9a-f]{6,64}$',
    patternErrorMessage: 'the beginning of a hash: 6 to 64 hexadecimal digits',
    description: 'The configuration to put back; by default the one before the one in use.'
  },
  force: {
    type: 'boolean',
    default: false,
    description: 'true: also when the file on disk is not the one in use.'
  }
} as const

/** Pages are sorted by text: the newest has to have the least. */
const newestFirst = 1_000_000_000

/** Lists the configurations that were taken over, newest first. */
export async function listHistory({ query }: Call, { history }: AdminParts): Promise<Answer> {
  const { data, next } = pageOf(await history.entries(), ({ seq }) => String(newestFirst - seq), query)
  return { json: { data: data.map(showEntry), next } }
}

/** Shows one without its secrets. */
export async function showPast({ names }: Call, { history }: AdminParts): Promise<Answer> {
  const past = await find(names['hash']!, history)
  const included = past.included.map(({ name }) => name)
  return { json: { ...showEntry(past), included, config: past.redacted } }
}

/**
 * Puts earlier files back and reloads them. With 422 and every problem when they cannot be used; then the present ones
 * are back in their place.
 */
export async function rollback({ by, json }: Call, parts: AdminParts): Promise<Answer> {
  const { hash, force } = readEntry(rollbackFields, [], await json(), '{"hash": "1f0a9c"}').value
  const { config } = parts.generations.current
  const { history } = parts
  const past = await (hash === undefined ? history.find((one) => one.hash !== config.hash) : find(hash, history))
  if (!past) throw conflict('nothing_to_roll_back', 'No earlier configuration is kept.', 'hash')
  const asked = { by: by.id, force, current: () => parts.generations.current.config }
  const result = await rollBack(past, asked, parts.reloader).catch((error: Error) => {
    throw error instanceof ReplacementRefused ? conflict('config_not_replaced', error.message, 'force') : error
  })
  const entry = { ...reloadEntry(by, config.file, config.hash, result), action: 'config.rollback' }
  await parts.store.documents.change([], entry).catch((error: Error) => {
    parts.log.error('a rollback was not written to the audit log', { error: error.message })
  })
  const files = result.files.map((one) => ({ ...one, file: resolve(one.file), aside: one.aside && resolve(one.aside) }))
  return showReload(result, { file: resolve(config.file), files, to: past.hash })
}

/**
 * Finds the newest with a hash that begins so.
 * @throws GatewayError when none does
 */
async function find(hash: string, history: AdminParts['history']): Promise<PastConfig> {
  const found = await history.find((one) => one.hash.startsWith(hash))
  if (found) return found
  throw new GatewayError('route_not_found', `No configuration is kept whose hash begins with ${shown(hash)}.`, {
    shownCode: 'config_not_found',
    param: 'hash'
  })
}

function showEntry({ seq, hash, time, reason, by, changes }: PastEntry): object {
  return { seq, hash, time: new Date(time).toISOString(), reason, by, changes }
}
