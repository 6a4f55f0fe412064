// The routes of keys: list, create, change, rotate and revoke them.
import type { Answer, Call, OfflineParts } from './contract.ts'
import { KeyDesk } from './key-desk.ts'
import { matching, pageOf } from './query.ts'

/** The parameters that select keys. */
export const keyFilters = ['tenant', 'project', 'member', 'state', 'source'] as const

/** Lists the keys of the file and of the store, by name. */
export function listKeys({ query }: Call, parts: OfflineParts): Answer {
  return { json: pageOf(matching(deskOf(parts).list(), keyFilters, query), ({ name }) => name, query) }
}

/** Shows one key. */
export function showKey({ names: { key } }: Call, parts: OfflineParts): Answer {
  return { json: deskOf(parts).find(key!) }
}

/** Creates a key. Only this answer ever has the secret. */
export async function createKey({ json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const key = await deskOf(parts).create(request, by)
  const { name, tenant, project, member } = key
  parts.log.info('a key was made', { key: name, tenant, project, member, by: by.id })
  return { status: 201, json: key }
}

/** Changes what a key of the store may use and spend. */
export async function changeKey({ names: { key }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const patch = await json()
  const shown = await deskOf(parts).change(key!, patch, by)
  parts.log.info('a key was changed', { key, by: by.id })
  return { json: shown }
}

/** Gives a key of the store a new secret, which only this answer has. */
export async function rotateKey({ names: { key }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const issued = await deskOf(parts).rotate(key!, request, by)
  parts.log.info('a key was rotated', { key, by: by.id })
  return { json: issued }
}

/** Revokes a key of the store, from the next request on. */
export async function revokeKey({ names: { key }, by }: Call, parts: OfflineParts): Promise<Answer> {
  const shown = await deskOf(parts).revoke(key!, by)
  parts.log.info('a key was revoked', { key, by: by.id })
  return { json: shown }
}

function deskOf({ generations, store }: OfflineParts): KeyDesk {
  return new KeyDesk(generations.current.config, store.documents)
}
