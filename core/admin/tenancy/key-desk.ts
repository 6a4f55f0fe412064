// The key desk: creates, changes, rotates and revokes keys, checked against the configuration and the store.
import { randomBytes } from 'node:crypto'
import { rightsShape } from '../../../config/sections/tenants.ts'
import type { Rights } from '../../catalogue/caller.ts'
import { GatewayError } from '../../errors.ts'
import type { Config, ConfigKey } from '../../catalogue/settings.ts'
import { suggestion } from '../../options/suggest.ts'
import { changeOf } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'
import { Levels, storedRights } from '../../tenancy/levels.ts'
import { keyDocuments } from '../../tenancy/stored.ts'
import type { StoredKey, StoredSecret } from '../../tenancy/stored.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import { newKeySecret } from './key-secret.ts'
import { changed, conflict, nameFaults, readEntry, refuse, showTime } from '../api/entry.ts'
import { checkRoom } from './per-tenant.ts'
import { sentence, shown } from '../api/query.ts'
import { showRights } from './rights.ts'
import type { ShownRights } from './rights.ts'
import { ownerFaults } from './level-desk.ts'

/** A key as shown: everything but its secrets. Absent values are null. */
export interface ShownKey extends ShownRights {
  name: string
  /** Keys of the file can be changed only there. */
  source: 'file' | 'store'
  /** `unowned`: its tenant, project or member is missing, closed or disabled, so the key is refused. */
  state: 'active' | 'disabled' | 'expired' | 'revoked' | 'unowned'
  /** The first and last characters of its newest secret; null for keys of the file. */
  hint: string | null
  /** All secrets that are not over, the newest first; `until` says when one ends. */
  secrets: { hint: string; created: string | null; until: string | null }[]
  tenant: string
  project: string | null
  member: string | null
  /** RFC 3339, as are the other times. */
  created: string | null
  changed: string | null
  revoked: string | null
}

/** A key that was just created or rotated. `key` is its secret, which cannot be shown again. */
export type IssuedKey = ShownKey & { key: string }

const name = { type: 'string', description: 'The name of the key; made up when left out.' } as const
const owner = {
  tenant: { type: 'string', description: 'The tenant it belongs to.' },
  project: { type: 'string', description: 'The project its use counts for.' },
  member: { type: 'string', description: 'The member of the project who uses it.' }
} as const

/** What a key is created with: an entry of `keys:` in gateway.yaml, without a secret. */
export const keyFields = { name, ...owner, ...rightsShape } as const

/** What may be changed of a key. */
export const keyChanges = rightsShape

/** What a rotation is asked with. */
export const rotationFields = {
  overlap: {
    type: 'string',
    format: 'duration',
    default: '0s',
    atMost: '90d',
    description: 'How long the present secret stays valid beside the new one.'
  },
  rotation: {
    type: 'string',
    pattern: '^[\\x21-\\x7e]{1,64}$',
    patternErrorMessage: 'at most 64 printable ASCII characters without spaces',
    description: 'A name for this rotation: asked again by the same name, it replaces the secret that was lost.'
  }
} as const

/** The key desk of one gateway. Every refusal is a GatewayError that names the field or the place. */
export class KeyDesk {
  readonly #config: Config
  readonly #documents: Documents
  readonly #levels: Levels

  /** Uses one configuration: make a new key desk after a reload. */
  constructor(config: Config, documents: Documents) {
    this.#config = config
    this.#documents = documents
    this.#levels = new Levels(config, documents)
  }

  /** Lists the keys of the file, then those of the store, including revoked ones. */
  list(): ShownKey[] {
    const stored = this.#documents.all(keyDocuments)
    return [...this.#config.keys.map((key) => this.#showDeclared(key)), ...stored.map((key) => this.#showStored(key))]
  }

  /** The tenant of a key; undefined when there is no key of that name. */
  tenantOf(name: string): string | undefined {
    return (this.#declared(name) ?? this.#documents.find(keyDocuments, name))?.tenant
  }

  /** @throws GatewayError `key_not_found` */
  find(name: string): ShownKey {
    const declared = this.#declared(name)
    return declared ? this.#showDeclared(declared) : this.#showStored(this.#stored(name))
  }

  /** Creates a key from a request with {@link keyFields}. Resolves when the key is on disk and can be used. */
  async create(request: unknown, by: Actor): Promise<IssuedKey> {
    const example = '{"tenant": "acme", "project": "web", "budget": {"usd": 5, "per": "day"}}'
    const { settings: given, value } = readEntry(keyFields, ['tenant'], request, example)
    const { name: _name, tenant: _tenant, project: _project, member: _member, ...settings } = given
    const { tenant, project, member } = value
    refuse([
      ...ownerFaults(this.#levels, [tenant, project, member]),
      ...(value.name === undefined ? [] : nameFaults('name', value.name))
    ])
    checkRoom('key', tenant, by, this.#config.settings.limits, this.#documents)
    const name = value.name ?? `${member ?? project ?? tenant}-${randomBytes(4).toString('hex')}`
    this.#refuseTaken(name, by)
    const { secret, stored } = newSecret(undefined)
    const key: StoredKey = { name, tenant, project, member, settings, secrets: [stored], created: stored.created }
    const after = this.#showStored(key)
    await this.#put(key, by, 'key.create', undefined, after)
    return { ...after, key: secret }
  }

  /** Changes the rights of a key by a merge patch, from the next request on. Resolves when that is on disk. */
  async change(name: string, patch: unknown, by: Actor): Promise<ShownKey> {
    const key = this.#changeable(name)
    const settings = changed(rightsShape, key.settings, patch, '{"budget": {"usd": 10, "per": "day"}}')
    const next: StoredKey = { ...key, settings, changed: Date.now() }
    const after = this.#showStored(next)
    await this.#put(next, by, 'key.change', this.#showStored(key), after)
    return after
  }

  /**
   * Gives a key a new secret. The one before stays valid for the overlap; older ones end at once. Budgets, limits and
   * what was spent belong to the key and stay.
   */
  async rotate(name: string, request: unknown, by: Actor): Promise<IssuedKey> {
    const key = this.#changeable(name)
    const { overlap, rotation } = readEntry(rotationFields, [], request, '{"overlap": "24h"}').value
    const { secret, stored } = newSecret(rotation)
    const [newest, previous] = key.secrets
    // The secret of a rotation whose answer was lost is nobody's: the new one takes its place.
    const repeated = rotation !== undefined && newest?.rotation === rotation
    const old = repeated ? previous : newest && { ...newest, until: stored.created + overlap }
    const kept = old && (old.until ?? Infinity) > stored.created ? [old] : []
    const next: StoredKey = { ...key, secrets: [stored, ...kept], changed: stored.created }
    const after = this.#showStored(next)
    await this.#put(next, by, 'key.rotate', this.#showStored(key), after)
    return { ...after, key: secret }
  }

  /** Revokes a key for good, from the next request on. Again it changes nothing. Resolves when that is on disk. */
  async revoke(name: string, by: Actor): Promise<ShownKey> {
    this.#refuseDeclared(name)
    const key = this.#stored(name)
    if (key.revoked !== undefined) return this.#showStored(key)
    const next: StoredKey = { ...key, revoked: Date.now() }
    const after = this.#showStored(next)
    await this.#put(next, by, 'key.revoke', this.#showStored(key), after)
    return after
  }

  #put(key: StoredKey, by: Actor, action: string, before: ShownKey | undefined, after: ShownKey): Promise<void> {
    const entry = auditEntry(by, action, { kind: 'key', id: key.name, tenant: key.tenant }, before, after)
    return this.#documents.change([changeOf(keyDocuments, key.name, key)], entry)
  }

  #showDeclared(key: ConfigKey): ShownKey {
    return this.#show(key, key, {
      source: 'file',
      hint: null,
      secrets: [],
      created: null,
      changed: null,
      revoked: null
    })
  }

  #showStored(key: StoredKey): ShownKey {
    const now = Date.now()
    const secrets = key.secrets.filter(({ until = Infinity }) => until > now)
    return this.#show(key, storedRights(key.settings, 'key'), {
      source: 'store',
      hint: key.secrets[0]?.hint ?? null,
      secrets: secrets.map(({ hint, created, until }) => ({
        hint,
        created: showTime(created),
        until: showTime(until)
      })),
      created: showTime(key.created),
      changed: showTime(key.changed),
      revoked: showTime(key.revoked)
    })
  }

  #show(
    { name, tenant, project, member }: Pick<StoredKey, 'name' | 'tenant' | 'project' | 'member'>,
    rights: Rights,
    rest: Pick<ShownKey, 'source' | 'hint' | 'secrets' | 'created' | 'changed' | 'revoked'>
  ): ShownKey {
    const line = this.#levels.lineOf([tenant, project, member])
    const owned = line?.every((level) => level.rights.enabled) ?? false
    const expires = Math.min(
      ...[rights, ...(line ?? []).map((level) => level.rights)].map((one) => one.expires ?? Infinity)
    )
    const state =
      rest.revoked !== null
        ? 'revoked'
        : !owned
          ? 'unowned'
          : !rights.enabled
            ? 'disabled'
            : expires <= Date.now()
              ? 'expired'
              : 'active'
    return { name, state, tenant, project: project ?? null, member: member ?? null, ...showRights(rights), ...rest }
  }

  #refuseTaken(name: string, by: Actor): void {
    const declared = this.#declared(name)
    const stored = this.#documents.find(keyDocuments, name)
    if (!declared && !stored) return
    // Names of keys are for the whole gateway. Whose the other one is, is not for everybody.
    if (by.tenant !== null && (declared ?? stored)!.tenant !== by.tenant)
      throw conflict('key_exists', `The name ${name} is taken: choose another one.`)
    const where = declared
      ? `in ${declared.place}`
      : stored!.revoked === undefined
        ? 'in the store'
        : 'in the store, revoked'
    throw conflict('key_exists', `There is a key ${name} already, ${where}: choose another name.`)
  }

  #refuseDeclared(name: string): void {
    const declared = this.#declared(name)
    if (declared) throw conflict('key_read_only', `The key ${name} stands in ${declared.place}: change it there.`)
  }

  #changeable(name: string): StoredKey {
    this.#refuseDeclared(name)
    const key = this.#stored(name)
    if (key.revoked !== undefined)
      throw conflict('key_revoked', `The key ${name} is revoked for good: create another one.`)
    return key
  }

  #declared(name: string): ConfigKey | undefined {
    return this.#config.keys.find((key) => key.name === name)
  }

  #stored(name: string): StoredKey {
    const key = this.#documents.find(keyDocuments, name)
    if (key) return key
    const known = this.#documents.all(keyDocuments).map((one) => one.name)
    throw new GatewayError('route_not_found', sentence(`There is no key ${shown(name)}${suggestion(name, known)}`), {
      shownCode: 'key_not_found',
      param: 'name'
    })
  }
}

function newSecret(rotation: string | undefined): { secret: string; stored: StoredSecret } {
  const { secret, sha256 } = newKeySecret()
  return {
    secret,
    stored: {
      sha256,
      hint: `${secret.slice(0, 7)}…${secret.slice(-4)}`,
      created: Date.now(),
      ...(rotation !== undefined && { rotation })
    }
  }
}
