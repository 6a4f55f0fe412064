// The routes of operators: list, show, create, change and revoke them, and give them tokens.
import { Levels } from '../../tenancy/levels.ts'
import type { Answer, Call, OfflineParts, OfflineRoute } from '../api/contract.ts'
import { matching, pageOf, paging } from '../api/query.ts'
import { issuedOperator, operator as shape, page } from '../api/shapes.ts'
import { grantFields, OperatorDesk, operatorFields, tokenFields } from './operator-desk.ts'

const filters = ['role', 'tenant', 'state'] as const
const list = '/admin/v1/operators'
const one = `${list}/{operator}`

/** All routes of operators. Actors of one tenant have no business here. */
export const operatorRoutes: readonly OfflineRoute[] = [
  {
    method: 'GET',
    path: list,
    summary: 'Lists operators',
    access: { needs: 'see' },
    query: [...filters, ...paging],
    answers: { 200: page(shape) },
    offline: true,
    handle: ({ query }, parts) => ({
      json: pageOf(matching(deskOf(parts).list(), filters, query), ({ name }) => name, query)
    })
  },
  {
    method: 'POST',
    path: list,
    summary: 'Makes an operator, and shows its token this once',
    access: { needs: 'operate' },
    query: [],
    body: { fields: operatorFields, required: ['name', 'role'] },
    answers: { 201: issuedOperator },
    offline: true,
    handle: create
  },
  {
    method: 'GET',
    path: one,
    summary: 'Shows an operator',
    access: { needs: 'see' },
    query: [],
    answers: { 200: shape },
    offline: true,
    handle: ({ names: { operator } }, parts) => ({ json: deskOf(parts).find(operator!) })
  },
  {
    method: 'PATCH',
    path: one,
    summary: 'Changes what an operator may do, by a merge patch',
    access: { needs: 'operate' },
    query: [],
    body: { fields: grantFields, patch: true },
    answers: { 200: shape },
    offline: true,
    handle: change
  },
  {
    method: 'DELETE',
    path: one,
    summary: 'Revokes an operator for good',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: shape },
    offline: true,
    handle: revoke
  },
  {
    method: 'POST',
    path: `${one}/tokens`,
    summary: 'Gives an operator a new token, and shows it this once',
    access: { needs: 'operate' },
    query: [],
    body: { fields: tokenFields },
    answers: { 201: issuedOperator },
    offline: true,
    handle: rotate
  }
]

/** Creates an operator. Only this answer ever has the token. */
async function create({ json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const issued = await deskOf(parts).create(request, by)
  const { name, role, tenant } = issued
  parts.log.info('an operator was made', { operator: name, role, tenant, by: by.id })
  return { status: 201, json: issued }
}

async function change({ names: { operator }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const patch = await json()
  const shown = await deskOf(parts).change(operator!, patch, by)
  const { role, tenant, enabled } = shown
  parts.log.info('an operator was changed', { operator, role, tenant, enabled, by: by.id })
  return { json: shown }
}

/** Gives an operator a token, which only this answer has. */
async function rotate({ names: { operator }, json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const issued = await deskOf(parts).rotate(operator!, request, by)
  parts.log.info('an operator was given a token', { operator, by: by.id })
  return { status: 201, json: issued }
}

async function revoke({ names: { operator }, by }: Call, parts: OfflineParts): Promise<Answer> {
  const shown = await deskOf(parts).revoke(operator!, by)
  parts.log.info('an operator was revoked', { operator, by: by.id })
  return { json: shown }
}

function deskOf({ generations, store }: OfflineParts): OperatorDesk {
  return new OperatorDesk(store.documents, new Levels(generations.current.config, store.documents))
}
