// A key as the API shows it.
import type { ShownRights } from '../../parts/rights.ts'
import type { Tone } from '../../parts/status.ts'

/** A key. */
export interface Key extends ShownRights {
  readonly name: string
  readonly source: 'file' | 'store'
  readonly state: 'active' | 'disabled' | 'expired' | 'revoked' | 'unowned'
  readonly hint: string | null
  readonly secrets: readonly { hint: string; created: string | null; until: string | null }[]
  readonly tenant: string
  readonly project: string | null
  readonly member: string | null
  readonly created: string | null
  readonly revoked: string | null
}

/** A key with its secret, which only this answer has. */
export type IssuedKey = Key & { readonly key: string }

/** How its states are shown. */
export const tones: Readonly<Record<Key['state'], Tone>> = {
  active: 'good',
  disabled: 'idle',
  expired: 'warn',
  revoked: 'idle',
  unowned: 'bad'
}
