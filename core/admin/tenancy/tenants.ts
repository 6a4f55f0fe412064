// The routes of tenants, projects and members: list, show, create, change and close them.
import { levelSettings } from '../../tenancy/stored.ts'
import type { LevelKind, Path } from '../../tenancy/stored.ts'
import type { Access, Answer, Call, OfflineParts, OfflineRoute, TenantRule } from '../api/contract.ts'
import { LevelDesk, levelFields, requiredOf } from './level-desk.ts'
import type { ShownLevel } from './level-desk.ts'
import { matching, pageOf, paging } from '../api/query.ts'
import { levelListShapes, levelShapes } from '../api/shapes.ts'

const filters = {
  tenant: ['tenant', 'state', 'source'],
  project: ['tenant', 'state', 'source'],
  member: ['tenant', 'project', 'state', 'source']
} as const satisfies Readonly<Record<LevelKind, readonly string[]>>

/** The routes of one kind of level: of its list, and of one of them. Only operators make and change tenants. */
function routesOf(kind: LevelKind, names: string): OfflineRoute[] {
  const list = `/admin/v1/${kind}s`
  const one = `${list}/${names}`
  const managed = (rule: TenantRule): Access =>
    kind === 'tenant' ? { needs: 'operate' } : { needs: 'manage', tenant: rule }
  return [
    {
      method: 'GET',
      path: list,
      summary: `Lists ${kind}s, those of the file and of the store`,
      answers: { 200: levelListShapes[kind] },
      access: { needs: 'see', tenant: { in: 'query' } },
      query: [...filters[kind], ...paging],
      offline: true,
      handle: (call, parts) => listOf(kind, call, parts)
    },
    {
      method: 'POST',
      path: list,
      summary: `Makes a ${kind}`,
      body: { fields: levelFields[kind], required: requiredOf(kind) },
      answers: { 201: levelShapes[kind] },
      access: managed({ in: 'body' }),
      query: [],
      offline: true,
      handle: (call, parts) => create(kind, call, parts)
    },
    {
      method: 'GET',
      path: one,
      summary: `Shows a ${kind}`,
      answers: { 200: levelShapes[kind] },
      access: { needs: 'see', tenant: { in: 'path' } },
      query: [],
      offline: true,
      handle: (call, parts) => ({ json: deskOf(parts).find(pathOf(call)) })
    },
    {
      method: 'PATCH',
      path: one,
      summary: `Changes what a ${kind} may use and spend, by a merge patch`,
      body: { fields: levelSettings[kind], patch: true },
      answers: { 200: levelShapes[kind] },
      access: managed({ in: 'path' }),
      query: [],
      offline: true,
      handle: (call, parts) => change(kind, call, parts)
    },
    {
      method: 'DELETE',
      path: one,
      summary: `Closes a ${kind} for good`,
      answers: { 200: levelShapes[kind] },
      access: managed({ in: 'path' }),
      query: [],
      offline: true,
      handle: (call, parts) => close(kind, call, parts)
    }
  ]
}

/** All routes of levels. */
export const levelRoutes: readonly OfflineRoute[] = [
  ...routesOf('tenant', '{tenant}'),
  ...routesOf('project', '{tenant}/{project}'),
  ...routesOf('member', '{tenant}/{project}/{member}')
]

/** Lists the levels of a kind by their names. Tenants are shown with their projects, and those with their members. */
function listOf(kind: LevelKind, { query }: Call, parts: OfflineParts): Answer {
  const desk = deskOf(parts)
  const { data, next } = pageOf(matching(desk.list(kind), filters[kind], query), ({ scope }) => scope, query)
  if (kind !== 'tenant') return { json: { data, next } }
  const [projects, members] = [desk.list('project'), desk.list('member')]
  const below = (all: readonly ShownLevel[], tenant: string, project?: string): ShownLevel[] =>
    all.filter((level) => level.tenant === tenant && level.project === project)
  const nested = data.map((tenant) => ({
    ...tenant,
    projects: below(projects, tenant.name).map((project) => ({
      ...project,
      members: below(members, tenant.name, project.name)
    }))
  }))
  return { json: { data: nested, next } }
}

async function create(kind: LevelKind, { json, by }: Call, parts: OfflineParts): Promise<Answer> {
  const request = await json()
  const level = await deskOf(parts).create(kind, request, by)
  parts.log.info(`a ${kind} was made`, { [kind]: level.scope, by: by.id })
  return { status: 201, json: level }
}

async function change(kind: LevelKind, call: Call, parts: OfflineParts): Promise<Answer> {
  const patch = await call.json()
  const level = await deskOf(parts).change(pathOf(call), patch, call.by)
  parts.log.info(`a ${kind} was changed`, { [kind]: level.scope, by: call.by.id })
  return { json: level }
}

async function close(kind: LevelKind, call: Call, parts: OfflineParts): Promise<Answer> {
  const level = await deskOf(parts).close(pathOf(call), call.by)
  parts.log.info(`a ${kind} was closed`, { [kind]: level.scope, by: call.by.id })
  return { json: level }
}

function pathOf({ names: { tenant, project, member } }: Call): Path {
  return project === undefined ? [tenant!] : member === undefined ? [tenant!, project] : [tenant!, project, member]
}

/** Made when the body is there: while that comes, another configuration may have come into use. */
function deskOf({ generations, store }: OfflineParts): LevelDesk {
  return new LevelDesk(generations.current.config, store.documents)
}
