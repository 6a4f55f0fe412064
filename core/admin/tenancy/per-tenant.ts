// Bounds what the admins of one tenant make in the store. All of it is in the memory of the gateway, which is shared.
import type { Limits } from '../../catalogue/settings.ts'
import type { Documents } from '../../store/documents.ts'
import { keyDocuments, levelDocuments } from '../../tenancy/stored.ts'
import type { Actor } from '../api/audit.ts'
import { conflict } from '../api/entry.ts'

const most = { key: 'keys', project: 'projects', member: 'members' } as const

/**
 * Checks that an actor may make one more key, project or member for a tenant. Whoever acts for the whole gateway may.
 * Revoked keys and closed levels count, as they are kept.
 * @throws GatewayError `too_many_keys`, `too_many_projects` or `too_many_members` when the tenant has as many as it may
 */
export function checkRoom(
  kind: keyof typeof most,
  tenant: string,
  by: Actor,
  { perTenant }: Limits,
  documents: Documents
): void {
  if (by.tenant === null) return
  const tenants =
    kind === 'key'
      ? documents.all(keyDocuments).map((key) => key.tenant)
      : documents.all(levelDocuments[kind]).map(({ path }) => path[0])
  const [nouns, bound] = [most[kind], perTenant[most[kind]]]
  const count = tenants.filter((name) => name === tenant).length
  if (count < bound) return
  const ended = kind === 'key' ? 'revoked' : 'closed'
  throw conflict(
    `too_many_${nouns}`,
    `The tenant ${tenant} has ${count} ${nouns} in the store, with those that are ${ended}, and its own admins may make ${bound}: ask whoever runs the gateway to make this one, or to raise limits.per_tenant.${nouns}.`,
    'tenant'
  )
}
