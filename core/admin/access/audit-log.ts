// The route of the audit log: who changed what, when and from where, and who was refused; newest first.
import type { auditMembers, AuditQuery, StoredAuditEntry } from '../../store/documents.ts'
import type { Answer, Call, OfflineParts, OfflineRoute } from '../api/contract.ts'
import { auditPage } from '../api/shapes.ts'
import { invalidField, paging, readLimit, readTime, shown } from '../api/query.ts'

/** The parameters that must be equal to the member of an entry that is called alike. */
export const auditFilters = [
  'actor',
  'action',
  'object_kind',
  'object',
  'outcome',
  'tenant'
] as const satisfies readonly (typeof auditMembers)[number][]

/** The parameters that select entries. */
export const auditParameters = [...auditFilters, 'since', 'until'] as const

const defaultLimit = 100

/** What actors of one tenant do not see of an entry: where others were, and how much there is of others. */
export const hiddenOfAudit = ['address', 'seq', 'hash'] as const

/** All routes of the audit log. */
export const auditRoutes: readonly OfflineRoute[] = [
  {
    method: 'GET',
    path: '/admin/v1/audit',
    summary: 'Lists who changed what and who was refused, newest first',
    answers: { 200: auditPage },
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfAudit } },
    query: [...auditParameters, ...paging],
    offline: true,
    handle: listAudit
  }
]

/** An entry of the audit log as it is shown; the members are those of {@link auditEntry}. */
export interface ShownAuditEntry extends Readonly<Record<string, unknown>> {
  readonly seq: number
  /** RFC 3339. */
  readonly time: string
  readonly hash: string
}

/**
 * Lists entries. `head` is the newest entry of all with its hash, which covers all before it: kept elsewhere, it proves
 * later that nothing was taken out or changed.
 */
async function listAudit({ query, by, left }: Call, { store }: OfflineParts): Promise<Answer> {
  const limit = readLimit(query, defaultLimit)
  const asked = { ...readAudit(query), before: readCursor(query.get('cursor')), limit: limit + 1 }
  const found = await store.documents.audit(asked, left)
  const data = found.slice(0, limit)
  const next = found.length > limit ? String(data.at(-1)!.seq) : null
  // How many entries there are in all is not for those who may see some of them.
  if (by.tenant !== null) return { json: { data: data.map(showEntry), next } }
  const [head] = await store.documents.audit({ limit: 1 })
  return { json: { data: data.map(showEntry), next, head: head ? { seq: head.seq, hash: head.hash } : null } }
}

/** An entry as it is shown to those who see all of it. */
export function showEntry({ seq, time, entry, hash }: StoredAuditEntry): ShownAuditEntry {
  return { seq, time: new Date(time).toISOString(), ...entry, hash }
}

/**
 * Reads which entries a query asks for, from the newest on.
 * @throws GatewayError
 */
export function readAudit(query: Call['query']): Omit<AuditQuery, 'limit'> {
  const members = Object.fromEntries(
    auditFilters.flatMap((name) => {
      const value = query.get(name)
      return value === undefined ? [] : [[name, value]]
    })
  )
  return { since: readTime(query, 'since'), until: readTime(query, 'until'), members }
}

function readCursor(cursor: string | undefined): number | undefined {
  if (cursor === undefined) return undefined
  if (!/^[1-9]\d{0,14}$/.test(cursor))
    throw invalidField('cursor', `cursor is ${shown(cursor)}: it must be the next of an earlier page`)
  return Number(cursor)
}
