// Tenants, projects and members as the API shows them.
import type { ShownRights } from '../../parts/rights.ts'
import type { Tone } from '../../parts/status.ts'

/** A tenant, project or member. */
export interface Level extends ShownRights {
  readonly name: string
  readonly tenant: string
  /** `member:acme/web/alice`. */
  readonly scope: string
  readonly source: 'file' | 'store'
  readonly state: 'active' | 'disabled' | 'expired' | 'closed' | 'unowned'
  readonly created: string | null
  readonly closed: string | null
}

/** A tenant with what is below it. */
export interface Tenant extends Level {
  readonly projects: readonly (Level & { readonly members: readonly Level[] })[]
}

/** How states are shown. */
export const tones: Readonly<Record<Level['state'], Tone>> = {
  active: 'good',
  disabled: 'idle',
  expired: 'warn',
  closed: 'idle',
  unowned: 'bad'
}

/** Its name with those above it, outermost first. */
export function pathOf({ scope }: Pick<Level, 'scope'>): string[] {
  return scope.slice(scope.indexOf(':') + 1).split('/')
}
