// The caller of a request: an API key with its tenant, project and member. Resolved once per key and generation.
import { hash } from 'node:crypto'
import type { Awaitable } from '../awaitable.ts'
import type { RuleReason } from '../errors.ts'
import type { Nano } from '../money/money.ts'

/** Limits of requests and tokens. An absent member means no limit. */
export interface Rates {
  rps?: number | undefined
  rpm?: number | undefined
  /** Tokens per minute, input and output together. */
  tpm?: number | undefined
  concurrency?: number | undefined
}

/** The limits of one level: of all its requests, and of those for models that match a pattern. */
export interface LevelLimits extends Rates {
  /** By glob. Every one that matches limits a request, and each counts by itself. */
  readonly models?: Readonly<Record<string, Rates>> | undefined
}

/** Limits that are counted together: those of a scope, or of a pattern of models within one. */
export interface LimitSet {
  /** Unique, and the same as long as the scope and the pattern are. */
  readonly id: string
  /** The same for all sets that one request may have to keep together: its tenant's scope. */
  readonly home: string
  readonly level: Scope['kind']
  readonly scope: string
  /** The pattern of models; null for all of them. */
  readonly models: string | null
  readonly rates: Rates
}

/**
 * The most that may be spent in a window. Days, weeks (from Monday on) and months are those of the calendar in UTC.
 * `30d` stands for the newest 30 × 24 hours, the present one included: from 1 to 366 days.
 */
export interface Budget {
  limit: Nano
  per: 'day' | 'week' | 'month' | 'total' | `${number}d`
  /** Percent of the limit, ascending: an alert is sent when so much was charged. */
  alerts?: readonly number[] | undefined
}

/** What an operator wants spend to be told apart by: values by name. */
export type Tags = Readonly<Record<string, string>>

/** What one level (tenant, project, member or key) may use and spend. */
export interface Rights {
  /** False refuses all requests at this level and below it. */
  readonly enabled: boolean
  /** Globs. */
  readonly models: readonly string[]
  readonly endpoints: readonly string[]
  readonly limits: LevelLimits
  readonly budgets: readonly Budget[]
  /** Unix milliseconds; refused from then on. */
  readonly expires: number | undefined
  readonly tags: Tags | undefined
}

/** A level whose budgets a request counts against. */
export interface Scope {
  kind: 'tenant' | 'project' | 'member' | 'key'
  /**
   * Unique over all kinds and tenants: `tenant:acme`, `project:acme/web`, `member:acme/web/alice`, `key:alice-laptop`.
   */
  id: string
  /** One for each kind of window at most; empty where nothing limits the scope. */
  budgets: readonly Budget[]
  /** Which configuration its budgets are of: later ones have greater numbers. Absent counts as earlier than all. */
  generation?: number | undefined
  /** They are kept with every charge. A tag of an inner scope counts instead of an outer one with the same name. */
  tags?: Tags | undefined
}

/** The tags of all scopes together, with sorted names; undefined when there are none. */
export function tagsOf(scopes: readonly Scope[]): Tags | undefined {
  const tags = Object.entries(Object.assign(Object.create(null), ...scopes.map(({ tags }) => tags)) as Tags)
  return tags.length === 0 ? undefined : Object.fromEntries(tags.sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** What was charged of an amount, and what is held of it. */
export interface Spent {
  readonly posted: Nano
  readonly pending: Nano
}

/** The amount that the sessions of one client secret may spend together, wherever they are. */
export interface Allowance {
  readonly limit: Nano
  /** @throws GatewayError or rejects with it, as {@link Allowance.hold} */
  spent(): Awaitable<Spent>
  /**
   * Holds an amount under a name, once; one of 0 always. Returns undefined, or, when it does not fit, what is spent
   * already.
   * @throws GatewayError rejects with `quota_key_exceeded` when the secret is long over, or `billing_unavailable`
   */
  hold(name: string, amount: Nano): Awaitable<Spent | undefined>
  /** Ends what was held under a name with a charge, once. What is never ended stays held until the secret is over. */
  end(name: string, charged: Nano): void
}

/** The SHA-256 of a secret, by which whoever has it is found. */
export function digestOf(secret: string): Buffer {
  // A digest as a string of single-byte characters takes half the time of one as a buffer.
  return Buffer.from(hash('sha256', secret, 'binary'), 'latin1')
}

/** What every client secret begins with. */
export const secretPrefix = 'ek_'

/** A short-lived key that another key made, for a client that must not have the other key. */
export interface ClientSecret {
  /** The SHA-256 of the key that made it, which is looked up to decide whether a session may go on. */
  readonly issuer: Buffer
  /** The settings of a new session, as JSON; absent when there are none. */
  readonly settings?: string | undefined
  readonly allowance?: Allowance | undefined
}

/** An authenticated key. Shared by all exchanges of a generation: plugins read it and never change it. */
export interface Caller {
  /** The key's name, unique in the installation; never its secret. */
  key: string
  /** The SHA-256 of the presented secret. */
  digest: Buffer
  /** Set when a client secret was presented; the other members are then those of the key that made it. */
  secret?: ClientSecret | undefined
  tenant: string
  project?: string | undefined
  member?: string | undefined
  /** Outermost first: tenant, project, member, key. */
  scopes: readonly Scope[]
  /** Those of all scopes. */
  tags?: Tags | undefined
  /**
   * The limits of all scopes that a request for a model has to keep, outermost first. An empty name: no model.
   * The same array for the same model, as long as the caller is the same.
   */
  limitsOf(model: string): readonly LimitSet[]
  /** Whether this key may use the model: its tenant, its member and the key itself must all allow it. */
  mayUse(model: string): boolean
  /** Whether the key's endpoint globs match the endpoint, such as `chat` or `models`. */
  mayCall(endpoint: string): boolean
  /**
   * Why the caller may not use a model or call an endpoint, or is out of time: which level says so, and where. For
   * operators only.
   */
  whyNot(asked: 'model' | 'endpoint' | 'time', name: string): RuleReason
  /** Unix milliseconds; refused from then on, by the level whose time ends first. */
  expires?: number | undefined
}
