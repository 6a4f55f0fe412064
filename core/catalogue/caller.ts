// Who is asking: one API key with the tenant, project and member it belongs to, resolved once per key and generation.
import type { Nano } from '../money/money.ts'

/** Upper bounds on what a key may do; an absent one does not limit. */
export interface KeyLimits {
  rps?: number | undefined
  rpm?: number | undefined
  /** Tokens per minute, input and output together. */
  tpm?: number | undefined
  concurrency?: number | undefined
}

/** How much may be spent in a window; windows are calendar days and months in UTC. */
export interface Budget {
  limit: Nano
  per: 'day' | 'month' | 'total'
}

/** One level of spending that a request counts against. */
export interface Scope {
  kind: 'tenant' | 'project' | 'member' | 'key'
  /**
   * Unique over all kinds and tenants: `tenant:acme`, `project:acme/web`, `member:acme/web/alice`, `key:alice-laptop`.
   */
  id: string
  budget?: Budget | undefined
}

/** What sessions of one client secret may spend together. */
export interface Allowance {
  /** Nano-dollars that are neither spent nor held. */
  left: bigint
}

/** A key that was made by another one, for somebody who must not have that. */
export interface ClientSecret {
  /** The SHA-256 of the key that made it: it is asked whether a session may go on. */
  readonly issuer: Buffer
  /** Settings that a session begins with, as JSON; absent when there are none. */
  readonly settings?: string
  readonly allowance?: Allowance
}

/** An authenticated key. Shared by all exchanges of a generation: plugins read it and never change it. */
export interface Caller {
  /** The key's name, unique in the installation; never its secret. */
  key: string
  /** The SHA-256 of the secret that it was found by. */
  digest: Buffer
  /** There when a client secret was presented; the rest is that of the key that made it. */
  secret?: ClientSecret | undefined
  tenant: string
  project?: string | undefined
  member?: string | undefined
  /** Outermost first: tenant, project, member, key. */
  scopes: readonly Scope[]
  limits: KeyLimits
  /** May this key use the model? All three layers (tenant, member, key) have to agree. */
  mayUse(model: string): boolean
  /** Endpoint globs of the key, matched against the endpoint's name: `chat`, `models`, … */
  mayCall(endpoint: string): boolean
  /** Unix milliseconds; the key is refused from then on. */
  expires?: number | undefined
}
