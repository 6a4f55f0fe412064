// The routes of keys: list, create, change, rotate and revoke them.
import type { Answer, Call, OfflineParts, OfflineRoute, TenantRule } from '../api/contract.ts'
import { keyModelsRoute } from './key-models.ts'
import { keyChanges, KeyDesk, keyFields, rotationFields } from './key-desk.ts'
import { matching, pageOf, paging } from '../api/query.ts'
import { issuedKey, key as shownKey, page } from '../api/shapes.ts'

const filters = ['tenant', 'project', 'member', 'state', 'source'] as const
const list = '/admin/v1/keys'
const one = `${list}/{key}`

/** The tenant of the key that a path names. */
const ofKey: TenantRule = { in: 'thing', kind: 'key', of: ({ key }, parts) => tenantOfKey(key!, parts) }

/** The tenant of a key; undefined when there is no key of that name. */
export function tenantOfKey(name: string, parts: OfflineParts): string | undefined {
  return deskOf(parts).tenantOf(name)
}

/** All routes of keys. */
export const keyRoutes: readonly OfflineRoute[] = [
  {
    method: 'GET',
    path: list,
    summary: 'Lists keys, those of the file and of the store',
    answers: { 200: page(shownKey) },
    access: { needs: 'see', tenant: { in: 'query' } },
    query: [...filters, ...paging],
    offline: true,
    handle: listKeys
  },
  {
    method: 'POST',
    path: list,
    summary: 'Makes a key, and shows its secret this once',
    body: { fields: keyFields, required: ['tenant'] },
    answers: { 201: issuedKey },
    access: { needs: 'manage', tenant: { in: 'body' } },
    query: [],
    offline: true,
    handle: createKey
  },
  {
    method: 'GET',
    path: one,
    summary: 'Shows a key',
    access: { needs: 'see', tenant: ofKey },
    query: [],
    answers: { 200: shownKey },
    offline: true,
    handle: showKey
  },
  {
    method: 'PATCH',
    path: one,
    summary: 'Changes what a key may use and spend, by a merge patch',
    body: { fields: keyChanges, patch: true },
    answers: { 200: shownKey },
    access: { needs: 'manage', tenant: ofKey },
    query: [],
    offline: true,
    handle: changeKey
  },
  {
    method: 'DELETE',
    path: one,
    summary: 'Revokes a key for good',
    answers: { 200: shownKey },
    access: { needs: 'manage', tenant: ofKey },
    query: [],
    offline: true,
    handle: revokeKey
  },
  {
    method: 'POST',
    path: `${one}/rotate`,
    summary: 'Gives a key a new secret, and shows it this once',
    body: { fields: rotationFields },
    answers: { 200: issuedKey },
    access: { needs: 'manage', tenant: ofKey },
    query: [],
    offline: true,
    handle: rotateKey
  },
  keyModelsRoute(ofKey)
]

/** Lists the keys of the file and of the store, by name. */
function listKeys({ query }: Call, parts: OfflineParts): Answer {
  return { json: pageOf(matching(deskOf(parts).list(), filters, query), ({ name }) => name, query) }
}

/** Shows one key. */
function showKey({ names: { key } }: Call, parts: OfflineParts): Answer {
  return { json: deskOf(parts).find(key!) }
}

/** Creates a key. Only this answer ever has the secret. */
async function createKey({ json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const key = await deskOf(parts).create(request, by)
  const { name, tenant, project, member } = key
  parts.log.info('a key was made', { key: name, tenant, project, member, by: by.id })
  return { status: 201, json: key }
}

/** Changes what a key of the store may use and spend. */
async function changeKey({ names: { key }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const patch = await json()
  const shown = await deskOf(parts).change(key!, patch, by)
  parts.log.info('a key was changed', { key, by: by.id })
  return { json: shown }
}

/** Gives a key of the store a new secret, which only this answer has. */
async function rotateKey({ names: { key }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const issued = await deskOf(parts).rotate(key!, request, by)
  parts.log.info('a key was rotated', { key, by: by.id })
  return { json: issued }
}

/** Revokes a key of the store, from the next request on. */
async function revokeKey({ names: { key }, by }: Call, parts: OfflineParts): Promise<Answer> {
  const shown = await deskOf(parts).revoke(key!, by)
  parts.log.info('a key was revoked', { key, by: by.id })
  return { json: shown }
}

function deskOf({ generations, store }: OfflineParts): KeyDesk {
  return new KeyDesk(generations.current.config, store.documents)
}
