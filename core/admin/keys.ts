// The routes of keys: list all keys, create keys in the store, and revoke them.
import type { AdminParts, Answer, Call } from './contract.ts'
import { KeyDesk } from './key-desk.ts'
import { pageOf } from './query.ts'

/** Lists the keys of the file and of the store, by name. */
export function listKeys({ query }: Call, parts: AdminParts): Answer {
  return { json: pageOf(deskOf(parts).list(), ({ name }) => name, query) }
}

/** Creates a key. Only this answer ever has the secret. */
export async function createKey({ json }: Call, parts: AdminParts): Promise<Answer> {
  const request = await json()
  const key = await deskOf(parts).create(request)
  const { name, tenant, project, member } = key
  parts.log.info('a key was made', { key: name, tenant, project, member })
  return { status: 201, json: key }
}

/** Revokes a key of the store, from the next request on. */
export async function revokeKey({ name }: Call, parts: AdminParts): Promise<Answer> {
  const key = await deskOf(parts).revoke(name)
  parts.log.info('a key was revoked', { key: name })
  return { json: key }
}

function deskOf({ generations, store }: AdminParts): KeyDesk {
  return new KeyDesk(generations.current.config, store.keys)
}
