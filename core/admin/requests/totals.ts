// The routes beside the list of requests: how many there are over time, and what they can be filtered by.
import { errorCodes } from '../../errors.ts'
import type { Tags } from '../../catalogue/caller.ts'
import type { Config } from '../../catalogue/settings.ts'
import type { Documents } from '../../store/documents.ts'
import { Levels } from '../../tenancy/levels.ts'
import { keyDocuments } from '../../tenancy/stored.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, shown } from '../api/query.ts'
import { count, listOf, nullable, object, said, text, time } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'
import { readRequests } from './requests.ts'

const defaultParts = 60
const mostParts = 600
/** The most names of a kind that are offered. */
const mostNames = 500

/** The answer of {@link countRequests}. */
export const totalsShape: Shape = object({
  data: listOf(
    object({
      at: said(time, 'Where the part begins.'),
      requests: count,
      refused: said(count, 'With a status from 400 to 499.'),
      failed: said(count, 'With a status of 500 or more.')
    })
  ),
  next: nullable(text),
  from: time,
  until: time,
  part_ms: said(count, 'How long a part is.'),
  requests: count,
  refused: count,
  failed: count,
  counted_from: said(nullable(time), 'What came before is not counted, because it is too much; null when all is.')
})

/** Counts requests over time, in 60 parts unless `parts` says otherwise. */
export async function countRequests({ query, left }: Call, { store }: AdminParts): Promise<Answer> {
  const { from, to, width, counted, parts } = await store.requests.totals(
    readRequests(query, 1),
    readParts(query),
    left
  )
  const sum = (name: 'requests' | 'refused' | 'failed'): number => parts.reduce((all, part) => all + part[name], 0)
  return {
    json: {
      data: parts.map(({ at, ...counts }) => ({ at: timeOf(at), ...counts })),
      next: null,
      from: timeOf(from),
      until: timeOf(to),
      part_ms: width,
      requests: sum('requests'),
      refused: sum('refused'),
      failed: sum('failed'),
      counted_from: counted > from ? timeOf(counted) : null
    }
  }
}

const names = listOf(text)

/** The answer of {@link listFilters}. */
export const filtersShape: Shape = object(
  {
    outcome: names,
    code: names,
    endpoint: names,
    key: names,
    project: names,
    member: names,
    tag: said(names, 'Tags by their names, and with their values.'),
    model: names,
    tenant: names,
    channel: names
  },
  { optional: ['model', 'tenant', 'channel'] }
)

/** Lists the values that requests can have, as far as they are known without looking into the log. */
export function listFilters({ by }: Call, { generations, operations, store }: AdminParts): Answer {
  const { config, catalogue } = generations.current
  const { channels, models, tenants } = catalogue
  return {
    json: {
      outcome: ['completed', 'rejected', 'failed', 'aborted'],
      code: errorCodes,
      endpoint: some(operations.map(({ name }) => name)).sort(),
      ...namesOf(config, store.documents, by.tenant),
      // Actors of one tenant are told of nothing that may be of another.
      ...(by.tenant === null && {
        model: some(models.keys()),
        tenant: some(tenants.keys()),
        channel: some(channels.keys())
      })
    }
  }
}

/** The names of keys, projects, members and tags: of one tenant, or of all for null. */
function namesOf(
  config: Config,
  documents: Documents,
  tenant: string | null
): Record<'key' | 'project' | 'member' | 'tag', string[]> {
  const isSeen = (one: string | undefined): boolean => tenant === null || one === tenant
  const found = {
    key: new Set<string>(),
    project: new Set<string>(),
    member: new Set<string>(),
    tag: new Set<string>()
  }
  // Further names are not offered, and nothing is made of them.
  const add = (kind: keyof typeof found, name: string | undefined): void => {
    if (name !== undefined && found[kind].size < mostNames) found[kind].add(name)
  }
  const tag = (tags: Tags | undefined): void => {
    for (const [name, value] of Object.entries(tags ?? {})) {
      add('tag', name)
      add('tag', `${name}=${value}`)
    }
  }
  for (const { path, rights } of new Levels(config, documents).all()) {
    if (!isSeen(path[0])) continue
    add('project', path[1])
    add('member', path[2])
    tag(rights.tags)
  }
  for (const { name, ...key } of config.keys) {
    if (!isSeen(key.tenant)) continue
    add('key', name)
    tag(key.tags)
  }
  for (const { name, ...key } of documents.all(keyDocuments)) {
    if (!isSeen(key.tenant)) continue
    add('key', name)
    tag(key.settings['tags'] as Tags | undefined)
  }
  return { key: [...found.key], project: [...found.project], member: [...found.member], tag: [...found.tag] }
}

/** The first of these names, each once. */
function some(all: Iterable<string>): string[] {
  return [...new Set(all)].slice(0, mostNames)
}

function readParts(query: Call['query']): number {
  const text = query.get('parts')
  if (text === undefined) return defaultParts
  const parts = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (parts < 1 || parts > mostParts)
    throw invalidField('parts', `parts is ${shown(text)}: it must be a whole number from 1 to ${mostParts}`)
  return parts
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
