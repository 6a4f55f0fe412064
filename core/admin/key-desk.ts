// The key desk: creates, lists and revokes keys, checked against the configuration and the store. The admin API and
// `sluice keys` both use it.
import { createHash, randomBytes } from 'node:crypto'
import { keysShape } from '../../config/tenants.ts'
import type { KeyLimits } from '../catalogue/caller.ts'
import { endpointNames } from '../catalogue/endpoints.ts'
import { GatewayError } from '../errors.ts'
import { checkerOf, isMap } from '../options/schema-check.ts'
import type { Fault } from '../options/schema-check.ts'
import type { OptionValues } from '../options/schema.ts'
import type { Config, ConfigKey } from '../catalogue/settings.ts'
import type { KeyStore, StoredKey } from '../store/keys.ts'
import { suggestion } from '../options/suggest.ts'
import { invalidField, sentence, shown } from './query.ts'
import { showBudget } from './tenants.ts'
import type { ShownBudget } from './tenants.ts'

/** A key as shown: everything but its secret. Absent values are null. */
export interface ShownKey {
  name: string
  /** Keys of the file can be changed only there. */
  source: 'file' | 'store'
  /** `unowned`: its tenant, project or member is not in the file any more, so the key is refused. */
  state: 'active' | 'expired' | 'revoked' | 'unowned'
  /** The first and last characters of its secret; null for keys of the file. */
  hint: string | null
  tenant: string
  project: string | null
  member: string | null
  models: readonly string[]
  endpoints: readonly string[]
  limits: KeyLimits
  budget: ShownBudget | null
  /** RFC 3339. */
  expires: string | null
  created: string | null
  revoked: string | null
}

/** A key that was just created. `key` is its secret, which cannot be shown again. */
export type IssuedKey = ShownKey & { key: string }

/** The fields of an entry of `keys:` in the file without its secret, which the key desk makes. */
const { key: _secret, key_sha256: _digest, ...fields } = keysShape.items.properties
type KeyRequest = OptionValues<typeof fields, 'tenant'>

/** The key desk of one gateway. Every refusal is a GatewayError that names the field or the place. */
export class KeyDesk {
  readonly #config: Config
  readonly #keys: KeyStore

  /** Uses one configuration: make a new key desk after a reload. */
  constructor(config: Config, keys: KeyStore) {
    this.#config = config
    this.#keys = keys
  }

  /** Lists the keys of the file, then those of the store, including revoked ones. */
  list(): ShownKey[] {
    return [...this.#config.keys.map((key) => this.#show(key)), ...this.#keys.all().map((key) => this.#show(key))]
  }

  /**
   * Creates a key from a request in the form of an entry of `keys:`, without a secret. Without `name` it makes one up.
   * Resolves when the key is on disk and can be used.
   */
  async create(request: unknown): Promise<IssuedKey> {
    const { name: wanted, budget, ...rest } = this.#read(request)
    const { tenant, project, member } = rest
    const name = wanted ?? `${member ?? project ?? tenant}-${randomBytes(4).toString('hex')}`
    this.#refuseTaken(name)
    const secret = `sk-${base62(randomBytes(32))}`
    const key: StoredKey = {
      ...rest,
      name,
      sha256: createHash('sha256').update(secret).digest(),
      hint: `${secret.slice(0, 7)}…${secret.slice(-4)}`,
      budget: budget && { limit: budget.usd, per: budget.per },
      created: Date.now()
    }
    await this.#keys.create(key)
    return { ...this.#show(key), key: secret }
  }

  /**
   * Revokes a key for good, from the next request on. Revoking it again changes nothing. Resolves when that is on disk.
   */
  async revoke(name: string): Promise<ShownKey> {
    const declared = this.#declared(name)
    if (declared)
      throw conflict('key_read_only', `The key ${name} stands in ${this.#place(declared)}: take it out there.`)
    if (!this.#stored(name)) {
      const known = this.list().flatMap((key) => (key.source === 'store' ? [key.name] : []))
      throw new GatewayError('route_not_found', sentence(`There is no key ${shown(name)}${suggestion(name, known)}`), {
        shownCode: 'key_not_found',
        param: 'name'
      })
    }
    await this.#keys.revoke(name)
    return this.#show(this.#stored(name)!)
  }

  #read(request: unknown): KeyRequest {
    if (!isMap(request))
      throw new GatewayError(
        'invalid_request',
        'A key is made from a JSON object such as {"name": "ci", "tenant": "acme"}.'
      )
    // The checker is made when the first key is created, so that it does not slow the start.
    const { value, faults } = checkerOf(fields, ['tenant'])(request)
    refuse(faults.map((fault) => ({ field: fault.pointer.slice(1).replaceAll('/', '.'), message: messageOf(fault) })))
    refuse([...this.#ownerFaults(value), ...endpointFaults(value.endpoints), ...expiryFaults(value.expires)])
    return value
  }

  #show(key: ConfigKey | StoredKey): ShownKey {
    const stored = 'hint' in key ? key : undefined
    return {
      name: key.name,
      source: stored ? 'store' : 'file',
      state: this.#stateOf(key, stored?.revoked),
      hint: stored?.hint ?? null,
      tenant: key.tenant,
      project: key.project ?? null,
      member: key.member ?? null,
      models: key.models,
      endpoints: key.endpoints,
      limits: key.limits,
      budget: showBudget(key.budget),
      expires: showTime(key.expires),
      created: showTime(stored?.created),
      revoked: showTime(stored?.revoked)
    }
  }

  #stateOf(key: ConfigKey | StoredKey, revoked: number | undefined): ShownKey['state'] {
    if (revoked !== undefined) return 'revoked'
    if (this.#ownerFaults(key).length > 0) return 'unowned'
    return key.expires !== undefined && key.expires <= Date.now() ? 'expired' : 'active'
  }

  /** Finds which of a key's tenant, project and member is not in the file. */
  #ownerFaults({ tenant, project, member }: Pick<KeyRequest, 'tenant' | 'project' | 'member'>): FieldFault[] {
    const projects = this.#config.tenants.get(tenant)?.projects
    if (!projects) return [this.#unknown('tenant', tenant, this.#config.tenants)]
    if (project === undefined)
      return member === undefined ? [] : [{ field: 'project', message: 'project is missing: a member belongs to one' }]
    const members = projects.get(project)?.members
    if (!members) return [this.#unknown('project', project, projects)]
    return member === undefined || members.has(member) ? [] : [this.#unknown('member', member, members)]
  }

  #unknown(level: string, name: string, known: ReadonlyMap<string, unknown>): FieldFault {
    return {
      field: level,
      message: `${this.#config.file} has no ${level} ${shown(name)}${suggestion(name, [...known.keys()])}`
    }
  }

  #refuseTaken(name: string): void {
    const declared = this.#declared(name)
    const stored = this.#stored(name)
    if (!declared && !stored) return
    const where = declared
      ? `in ${this.#place(declared)}`
      : stored!.revoked === undefined
        ? 'in the store'
        : 'in the store, revoked'
    throw conflict('key_exists', `There is a key ${name} already, ${where}: choose another name.`)
  }

  #declared(name: string): ConfigKey | undefined {
    return this.#config.keys.find((key) => key.name === name)
  }

  #stored(name: string): StoredKey | undefined {
    return this.#keys.all().find((key) => key.name === name)
  }

  #place({ at }: ConfigKey): string {
    return `${this.#config.file}:${at.line}:${at.column}`
  }
}

interface FieldFault {
  field: string
  message: string
}

/** Refuses with all faults in one error, which names the first field. Does nothing without faults. */
function refuse(faults: readonly FieldFault[]): void {
  if (faults.length > 0) throw invalidField(faults[0]!.field, faults.map(({ message }) => sentence(message)).join(' '))
}

function messageOf({ pointer, on, message }: Fault): string {
  const name = pointer.slice(1).replaceAll('/', '.')
  if (name === '') return message
  return on === 'value' ? `${name} ${message}` : `${name}: ${message}`
}

function endpointFaults(globs: readonly string[]): FieldFault[] {
  return globs
    .filter((glob) => !glob.includes('*') && !endpointNames.includes(glob))
    .map((glob) => ({
      field: 'endpoints',
      message: `there is no endpoint ${shown(glob)}${suggestion(glob, endpointNames)}`
    }))
}

function expiryFaults(expires: number | undefined): FieldFault[] {
  return expires === undefined || expires > Date.now() ? [] : [{ field: 'expires', message: 'expires is in the past' }]
}

function conflict(code: string, message: string): GatewayError {
  return new GatewayError('invalid_request', message, { status: 409, shownCode: code, param: 'name' })
}

function showTime(time: number | undefined): string | null {
  return time === undefined ? null : new Date(time).toISOString()
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * Encodes 32 bytes as 43 letters and digits. There is nothing else in it, so that a double click selects the whole
 * secret.
 */
function base62(bytes: Buffer): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; text.length < 43; rest /= 62n) text += alphabet[Number(rest % 62n)]
  return text
}
