// Who is using the page, as the admin API says. The session itself is a cookie that scripts cannot read.
import { computed, effect, signal } from '@preact/signals'
import type { Place } from './places.ts'

/** Whoever the API takes the page for. */
export interface Who {
  readonly kind: string
  readonly id: string
  readonly name: string | null
  readonly role: 'owner' | 'operator' | 'tenant_admin' | 'viewer'
  /** The tenant whose things alone they may see; null for all. */
  readonly tenant: string | null
  /** What its session is called; null without one. */
  readonly session: string | null
  /** What changes have to carry; null where the browser sends no cookie. */
  readonly csrf: string | null
  /** The address that the gateway listens at for clients. */
  readonly clients: string
}

/** Who is there: null for nobody, undefined until the API has said. Only api.ts sets it. */
export const who = signal<Who | null | undefined>(undefined)

/** Who was there last: what they were shown stays while they sign in again. */
export const known = signal<Who | undefined>(undefined)

effect(() => {
  const now = who.value
  const before = known.peek()
  if (!now) return
  // Somebody else sees nothing of what was open.
  if (before && (before.id !== now.id || before.role !== now.role || before.tenant !== now.tenant)) location.reload()
  known.value = now
})

/** The tenant that the page is confined to; undefined for actors of the whole gateway. */
export const ownTenant = computed(() => known.value?.tenant ?? undefined)

const roles: Readonly<Record<NonNullable<Place['needs']>, readonly Who['role'][]>> = {
  manage: ['owner', 'operator', 'tenant_admin'],
  operate: ['owner', 'operator']
}

/**
 * Whether whoever is there may do what takes this right: `whole` for what is about the whole gateway. It hides what
 * would lead to a refusal; what refuses is the API.
 */
export function may({ needs, whole }: Pick<Place, 'needs' | 'whole'>): boolean {
  const { value } = known
  if (!value) return false
  return (needs === undefined || roles[needs].includes(value.role)) && (whole === undefined || value.tenant === null)
}
