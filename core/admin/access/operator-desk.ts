// The operator desk: creates, changes and revokes operators, and gives them tokens. Nobody gives more than they have.
import { roles, within, grantFault } from './roles.ts'
import type { Grant, Role } from './roles.ts'
import { GatewayError } from '../../errors.ts'
import type { OptionSchemas } from '../../options/schema.ts'
import { suggestion } from '../../options/suggest.ts'
import { changeOf } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'
import type { Levels } from '../../tenancy/levels.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import { changed, conflict, nameFaults, readEntry, refuse, showTime } from '../api/entry.ts'
import { rotationFields } from '../tenancy/key-desk.ts'
import { ownerFaults } from '../tenancy/level-desk.ts'
import { sentence, shown } from '../api/query.ts'
import { forbidden } from './access.ts'
import { operatorDocuments, useDocuments } from './stored-operator.ts'
import type { StoredOperator, StoredToken } from './stored-operator.ts'
import { newToken } from './tokens.ts'

/** An operator as shown: everything but its tokens. Absent values are null; times are RFC 3339. */
export interface ShownOperator {
  name: string
  role: Role
  tenant: string | null
  enabled: boolean
  /** `expired`: all its tokens are over. */
  state: 'active' | 'disabled' | 'expired' | 'revoked'
  /** The tokens that are not over, the newest first. */
  tokens: { hint: string; created: string; expires: string; last_used: string | null }[]
  created: string
  changed: string | null
  revoked: string | null
}

/** An operator that was just given a token, which cannot be shown again. */
export type IssuedOperator = ShownOperator & { token: string }

const lifetime = {
  type: 'string',
  format: 'duration',
  default: '90d',
  atLeast: '1m',
  atMost: '366d',
  description: 'How long the token is valid.'
} as const

/** What may be changed of an operator. */
export const grantFields = {
  role: { type: 'string', enum: roles, description: 'What it may do.' },
  tenant: { type: 'string', description: 'The one tenant that it may see, or administer as a tenant_admin.' },
  enabled: { type: 'boolean', default: true, description: 'false refuses its tokens until it is true again.' }
} as const satisfies OptionSchemas

/** What an operator is created with. */
export const operatorFields = {
  name: { type: 'string', description: 'Its name, which it keeps, and which the audit log shows.' },
  ...grantFields,
  lifetime
} as const satisfies OptionSchemas

/** What a token is asked for with. */
export const tokenFields = { lifetime, ...rotationFields } as const satisfies OptionSchemas

/** The operator desk of one gateway. Every refusal is a GatewayError that names the field. */
export class OperatorDesk {
  readonly #documents: Documents
  readonly #levels: Levels

  constructor(documents: Documents, levels: Levels) {
    this.#documents = documents
    this.#levels = levels
  }

  /** Lists all operators, revoked ones too. */
  list(): ShownOperator[] {
    return this.#documents.all(operatorDocuments).map((operator) => this.#show(operator))
  }

  /** @throws GatewayError `operator_not_found` */
  find(name: string): ShownOperator {
    return this.#show(this.#stored(name))
  }

  /** Creates an operator with a token. Resolves when it is on disk and can be used. */
  async create(request: unknown, by: Actor): Promise<IssuedOperator> {
    const { value } = readEntry(operatorFields, ['name', 'role'], request, '{"name": "carol", "role": "viewer"}')
    const { name, role, tenant, enabled } = value
    const settings = { role, ...(tenant !== undefined && { tenant }), ...(!enabled && { enabled }) }
    refuse(nameFaults('name', name))
    this.#checkGrant(settings, by)
    const taken = this.#documents.find(operatorDocuments, name)
    if (taken)
      throw conflict(
        'operator_exists',
        `There is an operator ${name} already${taken.revoked === undefined ? '' : ', revoked'}: choose another name.`
      )
    const { token, stored } = issue(value.lifetime, undefined)
    const operator: StoredOperator = { name, settings, tokens: [stored], created: stored.created }
    return { ...(await this.#put(operator, by, 'operator.create', undefined)), token }
  }

  /** Changes what an operator may do, from its next request on. Resolves when that is on disk. */
  async change(name: string, patch: unknown, by: Actor): Promise<ShownOperator> {
    const operator = this.#changeable(name, by)
    const settings = changed(grantFields, operator.settings, patch, '{"role": "viewer"}')
    if (settings['role'] === undefined) refuse([{ field: 'role', message: 'role is null: it is needed' }])
    const next = { ...operator, settings: settings as StoredOperator['settings'], changed: Date.now() }
    this.#checkGrant(next.settings, by)
    return this.#put(next, by, 'operator.change', operator)
  }

  /** Gives an operator a new token. The one before stays valid for the overlap; older ones end at once. */
  async rotate(name: string, request: unknown, by: Actor): Promise<IssuedOperator> {
    const operator = this.#changeable(name, by)
    const asked = readEntry(tokenFields, [], request, '{"overlap": "24h"}').value
    const { token, stored } = issue(asked.lifetime, asked.rotation)
    const [newest, previous] = operator.tokens
    // The token of a rotation whose answer was lost is nobody's: the new one takes its place.
    const repeated = asked.rotation !== undefined && newest?.rotation === asked.rotation
    const old = repeated
      ? previous
      : newest && { ...newest, expires: Math.min(newest.expires, stored.created + asked.overlap) }
    const tokens = old && old.expires > stored.created ? [stored, old] : [stored]
    const next = { ...operator, tokens, changed: stored.created }
    return { ...(await this.#put(next, by, 'operator.rotate', operator)), token }
  }

  /** Revokes an operator for good, from its next request on. Again it changes nothing. */
  async revoke(name: string, by: Actor): Promise<ShownOperator> {
    const operator = this.#stored(name)
    this.#checkAbove(operator, by)
    if (operator.revoked !== undefined) return this.#show(operator)
    return this.#put({ ...operator, revoked: Date.now() }, by, 'operator.revoke', operator)
  }

  async #put(
    operator: StoredOperator,
    by: Actor,
    action: string,
    before: StoredOperator | undefined
  ): Promise<ShownOperator> {
    const after = this.#show(operator)
    const thing = { kind: 'operator', id: operator.name }
    const entry = auditEntry(by, action, thing, before && this.#show(before), after)
    await this.#documents.change([changeOf(operatorDocuments, operator.name, operator)], entry)
    return after
  }

  /** Refuses a grant that is no use as such, or more than the actor has. */
  #checkGrant(settings: StoredOperator['settings'], by: Actor): void {
    const grant = grantOf(settings)
    const fault = grantFault(grant)
    refuse([...(fault ? [fault] : []), ...(grant.tenant === null ? [] : ownerFaults(this.#levels, [grant.tenant]))])
    if (!within(grant, by)) throw forbidden(`The role ${by.role} may not make anybody an ${grant.role}.`)
  }

  /** Refuses to touch an operator who may do more than the actor: a token of such a one would be a way up. */
  #checkAbove({ name, settings }: StoredOperator, by: Actor): void {
    if (!within(grantOf(settings), by))
      throw forbidden(`The operator ${name} is an ${settings.role}, whom the role ${by.role} may not change.`)
  }

  #changeable(name: string, by: Actor): StoredOperator {
    const operator = this.#stored(name)
    this.#checkAbove(operator, by)
    if (operator.revoked !== undefined)
      throw conflict('operator_revoked', `The operator ${name} is revoked for good: create another one.`)
    return operator
  }

  #stored(name: string): StoredOperator {
    const operator = this.#documents.find(operatorDocuments, name)
    if (operator) return operator
    const known = this.#documents.all(operatorDocuments).map((one) => one.name)
    const message = sentence(`There is no operator ${shown(name)}${suggestion(name, known)}`)
    throw new GatewayError('route_not_found', message, { shownCode: 'operator_not_found', param: 'name' })
  }

  #show({ name, settings, tokens, created, changed, revoked }: StoredOperator): ShownOperator {
    const now = Date.now()
    const uses = this.#documents.find(useDocuments, name) ?? {}
    const valid = tokens.filter((token) => token.expires > now)
    const { role, enabled = true } = settings
    const state = revoked !== undefined ? 'revoked' : !enabled ? 'disabled' : valid.length === 0 ? 'expired' : 'active'
    return {
      name,
      role,
      tenant: settings.tenant ?? null,
      enabled,
      state,
      tokens: valid.map((token) => ({
        hint: token.hint,
        created: showTime(token.created)!,
        expires: showTime(token.expires)!,
        last_used: showTime(uses[token.sha256])
      })),
      created: showTime(created)!,
      changed: showTime(changed),
      revoked: showTime(revoked)
    }
  }
}

function grantOf({ role, tenant }: StoredOperator['settings']): Grant {
  return { role, tenant: tenant ?? null }
}

function issue(lifetimeMs: number, rotation: string | undefined): { token: string; stored: StoredToken } {
  const { token, sha256, hint } = newToken()
  const created = Date.now()
  return {
    token,
    stored: { sha256, hint, created, expires: created + lifetimeMs, ...(rotation !== undefined && { rotation }) }
  }
}
