// The route that says which models a key may use, and which layer keeps it from the others.
import { compileGlobs } from '../../catalogue/globs.ts'
import { Levels, scopeOf } from '../../tenancy/levels.ts'
import type { Answer, Call, OfflineParts, OfflineRoute, TenantRule } from '../api/contract.ts'
import { pageOf, paging } from '../api/query.ts'
import { page } from '../api/shapes.ts'
import { flag, listOf, nullable, object, oneOf, text } from '../api/shape.ts'
import { KeyDesk } from './key-desk.ts'

/** The layers, outermost first: a model has to be allowed by all that there are above a key, and by the key. */
const kinds = ['tenant', 'project', 'member', 'key'] as const

/** One layer above a key, or the key itself. */
interface Layer {
  readonly layer: (typeof kinds)[number]
  readonly scope: string
  readonly patterns: readonly string[]
}

const layer = object({ layer: oneOf(...kinds), scope: text, patterns: listOf(text) })
const model = object({ model: text, allowed: flag, refused_by: nullable(oneOf(...kinds)) })

/** The route. `ofKey` finds the tenant of the key in its path. */
export function keyModelsRoute(ofKey: TenantRule): OfflineRoute {
  return {
    method: 'GET',
    path: '/admin/v1/keys/{key}/models',
    summary: 'Lists which models a key may use, and which layer refuses the others',
    access: { needs: 'see', tenant: ofKey },
    query: paging,
    answers: { 200: page(model, { layers: listOf(layer) }) },
    offline: true,
    handle: listModelsOfKey
  }
}

/** Of models that the tenant may not use, its own actors are told nothing. */
function listModelsOfKey({ names, query, by }: Call, { generations, store }: OfflineParts): Answer {
  const { config } = generations.current
  const key = new KeyDesk(config, store.documents).find(names['key']!)
  const path = [key.tenant, key.project ?? undefined, key.member ?? undefined] as const
  const above = new Levels(config, store.documents).lineOf(path) ?? []
  const layers: Layer[] = [
    ...above.map(({ kind, path: own, rights }) => ({ layer: kind, scope: scopeOf(own), patterns: rights.models })),
    { layer: 'key', scope: `key:${key.name}`, patterns: key.models }
  ]
  const checks = layers.map((one) => ({ layer: one.layer, allows: compileGlobs(one.patterns) }))
  const all = [...config.models.keys()].map((name) => {
    const refused = checks.find(({ allows }) => !allows(name))?.layer ?? null
    return { model: name, allowed: refused === null, refused_by: refused }
  })
  const seen = by.tenant === null ? all : all.filter(({ refused_by: refused }) => refused !== 'tenant')
  return { json: { ...pageOf(seen, (one) => one.model, query), layers } }
}
