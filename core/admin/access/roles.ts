// The roles of those who use the admin API, and which of them include which.

/** The roles, from the most that may be done to the least. */
export const roles = ['owner', 'operator', 'tenant_admin', 'viewer'] as const
/**
 * `owner`: everything. `operator`: everything but what would make or change an owner. `tenant_admin`: the projects,
 * members and keys of one tenant. `viewer`: sees everything, or what is of one tenant.
 */
export type Role = (typeof roles)[number]

/** What somebody may do: a role, for the whole gateway or for one tenant alone. */
export interface Grant {
  readonly role: Role
  /** Null: for the whole gateway. */
  readonly tenant: string | null
}

/** The grant of whoever runs the gateway: the token of gateway.yaml, and programs and commands of its machine. */
export const everything: Grant = { role: 'owner', tenant: null }

/** Whether a grant allows nothing that another one does not allow as well. */
export function within(inner: Grant, outer: Grant): boolean {
  if (outer.role === 'owner') return true
  if (outer.role === 'operator') return inner.role !== 'owner'
  if (inner.role !== outer.role && inner.role !== 'viewer') return false
  return outer.tenant === null || outer.tenant === inner.tenant
}

/** Says what is wrong with a grant as such; undefined when nothing is. */
export function grantFault({ role, tenant }: Grant): { field: string; message: string } | undefined {
  if (role === 'tenant_admin' && tenant === null)
    return { field: 'tenant', message: 'tenant is missing: a tenant_admin belongs to one' }
  if ((role === 'owner' || role === 'operator') && tenant !== null)
    return { field: 'tenant', message: `tenant is there with the role ${role}, which is for the whole gateway` }
  return undefined
}
