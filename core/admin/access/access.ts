// Decides what an actor may do on a route, and holds actors of one tenant to it: in paths, queries, bodies and answers.
import { GatewayError } from '../../errors.ts'
import { isMap } from '../../options/schema-check.ts'
import { Levels } from '../../tenancy/levels.ts'
import type { Answer, Call, Need, OfflineParts, Route, TenantRule } from '../api/contract.ts'
import { invalidField, shown } from '../api/query.ts'
import type { Grant, Role } from './roles.ts'
import type { Seal } from './seal.ts'

const allowed: Readonly<Record<Need, readonly Role[]>> = {
  see: ['owner', 'operator', 'tenant_admin', 'viewer'],
  manage: ['owner', 'operator', 'tenant_admin'],
  operate: ['owner', 'operator'],
  own: ['owner']
}

/** Why somebody was refused who is known: the cause of errors that the audit log keeps. It is not shown. */
export class Denied extends Error {
  override readonly name = 'Denied'
}

/** Makes the error for an actor whose role or tenant does not allow something. `cause` is for the audit log. */
export function forbidden(message: string, cause = message): GatewayError {
  return new GatewayError('endpoint_not_allowed', message, { shownCode: 'role_not_allowed', cause: new Denied(cause) })
}

/** Whether an actor may use a route, on what is of their tenant if they have one. */
export function mayUse({ role, tenant }: Grant, { access }: Pick<Route, 'access'>): boolean {
  return (
    access === 'anyone' || (allowed[access.needs].includes(role) && (tenant === null || access.tenant !== undefined))
  )
}

/** What tells what an actor may do, and see. */
export type AccessParts = OfflineParts & {
  /** It must be ready where a list goes on by cursors: numbers in them would tell how much there is of others. */
  readonly seal: Seal
}

/**
 * The call as the actor may make it: of an actor of one tenant, only about that tenant. What is of another tenant is
 * answered like what there is not.
 * @throws GatewayError `role_not_allowed`, or `…_not_found`; {@link Call.json} may throw the first
 */
export function admit(asked: Call, { access, path }: Pick<Route, 'access' | 'path'>, parts: AccessParts): Call {
  if (access === 'anyone') return asked
  const call = asked.by.tenant === null ? asked : withCursor(asked, placeOf(path, asked.by.tenant), parts.seal)
  const { role, tenant } = call.by
  const { needs, tenant: rule } = access
  if (!allowed[needs].includes(role))
    throw forbidden(`The role ${role} may not do this: it takes ${allowed[needs].join(', ')}.`)
  if (tenant === null) return call
  if (!new Levels(parts.generations.current.config, parts.store.documents).find([tenant]))
    throw forbidden(`The tenant ${tenant} is not there any more.`)
  if (!rule) throw forbidden(`This is about the whole gateway, and not for a ${role} of one tenant.`)
  switch (rule.in) {
    case 'nothing':
    case 'found':
      return call
    case 'path':
      if (call.names['tenant'] !== tenant) throw hidden('tenant', call.names['tenant']!)
      return call
    case 'thing':
      if (rule.of(call.names, parts) !== tenant) throw hidden(rule.kind, call.names[rule.kind]!)
      return call
    case 'query':
      return { ...call, query: confined(call.query, tenant, rule.closed ?? []) }
    case 'body':
      return { ...call, json: async () => withTenant(await call.json(), tenant) }
    case 'named':
      return { ...call, json: async () => aboutOwn(await call.json(), tenant, rule, parts) }
  }
}

/**
 * The answer as the actor may see it.
 * @throws Error when it has something of another tenant, which is a mistake in the route
 */
export function disclosed(
  given: Answer,
  { access, path, query }: Pick<Route, 'access' | 'path' | 'query'>,
  { by }: Call,
  { seal }: Pick<AccessParts, 'seal'>
): Answer {
  const { tenant } = by
  if (access === 'anyone' || tenant === null || !('json' in given)) return given
  const { json } = given
  if (!isMap(json)) return given
  const { data, next } = json
  const goesOn = typeof next === 'string' && query?.includes('cursor') === true
  const answer = goesOn
    ? { ...given, json: { ...json, next: seal.close(next, placeOf(path, tenant)) } }
    : { ...given, json }
  const items: unknown[] = Array.isArray(data) ? data : [json]
  for (const item of items)
    if (isMap(item) && (item['tenant'] ?? tenant) !== tenant)
      throw new Error('an answer for an actor of one tenant has something of another')
  const without = access.tenant && 'hidden' in access.tenant ? (access.tenant.hidden ?? []) : []
  if (without.length === 0) return answer
  const kept = items.map((item) =>
    isMap(item) ? Object.fromEntries(Object.entries(item).filter(([name]) => !without.includes(name))) : item
  )
  return { ...answer, json: Array.isArray(data) ? { ...answer.json, data: kept } : kept[0] }
}

/**
 * The call with the cursor that was sealed for its actor.
 * @throws GatewayError when it was not
 */
function withCursor(call: Call, place: string, seal: Seal): Call {
  const sealed = call.query.get('cursor')
  if (sealed === undefined) return call
  const cursor = seal.open(sealed, place)
  if (cursor === undefined)
    throw invalidField('cursor', `cursor is ${shown(sealed)}: it must be the next of an earlier page of this list`)
  return { ...call, query: new Map([...call.query, ['cursor', cursor]]) }
}

/** The list that a cursor is for, and whose it is. No path has a space. */
function placeOf(path: string, tenant: string): string {
  return `${path} ${tenant}`
}

/** A body that names a thing of the tenant. What is no map is refused elsewhere. */
function aboutOwn(
  body: unknown,
  tenant: string,
  { kind, of }: Extract<TenantRule, { in: 'named' }>,
  parts: OfflineParts
): unknown {
  if (!isMap(body)) return body
  const name = body[kind]
  if (typeof name !== 'string')
    throw forbidden(`This is for the tenant ${tenant} alone: name the ${kind} in the member ${kind}.`)
  if (of(name, parts) !== tenant) throw hidden(kind, name)
  return body
}

function confined(query: Call['query'], tenant: string, closed: readonly string[]): Call['query'] {
  const asked = query.get('tenant')
  if (asked !== undefined && asked !== tenant) throw foreign(tenant, asked)
  const taken = [...query.keys(), ...(query.get('by')?.split(',') ?? [])].find((name) => closed.includes(name))
  if (taken !== undefined) throw forbidden(`Only who sees the whole gateway may ask by ${taken}.`)
  return new Map([...query, ['tenant', tenant]])
}

function withTenant(body: unknown, tenant: string): unknown {
  if (!isMap(body)) return body
  const asked = body['tenant'] ?? tenant
  if (asked !== tenant) throw foreign(tenant, asked)
  return { ...body, tenant }
}

/** `asked` is what a body has in the place of a tenant, which may be anything. */
function foreign(tenant: string, asked: unknown): GatewayError {
  const why =
    typeof asked === 'string' ? `the tenant ${shown(asked)} is another one` : 'the tenant asked for is no text'
  return forbidden(`This is for the tenant ${tenant} alone.`, why)
}

/** The error for a thing of another tenant and for one that there is not, which are not to be told apart. */
function hidden(kind: string, name: string): GatewayError {
  return new GatewayError('route_not_found', `There is no ${kind} ${shown(name)}.`, {
    shownCode: `${kind}_not_found`,
    param: kind === 'key' ? 'name' : kind,
    cause: new Denied(`the ${kind} ${shown(name)} is of another tenant, or of none`)
  })
}
