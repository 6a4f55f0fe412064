// Issues keys at run time: checks what is asked for against the configuration, and makes the secret.
import { createHash, randomBytes } from 'node:crypto'
import { channelEndpoints } from '../config/channels.ts'
import { keysShape } from '../config/tenants.ts'
import { endpoints } from './endpoints.ts'
import { GatewayError } from './errors.ts'
import type { OptionValues } from './schema.ts'
import { checkerOf } from './schema-check.ts'
import type { Config } from './settings.ts'
import type { KeyStore, StoredKey } from './store/keys.ts'
import { suggestion } from './suggest.ts'

const { key: _secret, key_sha256: _digest, ...shape } = keysShape.items.properties

/** What may be asked for: an entry of `keys:` in gateway.yaml without its secret, and the name is optional. */
export const keyRequestShape = shape

type KeyRequest = OptionValues<typeof shape, 'tenant'>

/** A new key. The secret exists here and nowhere else. */
export interface IssuedKey {
  stored: StoredKey
  secret: string
}

/**
 * Makes a key and keeps it in the store; resolves when it is on disk.
 * @throws GatewayError `invalid_field` or `missing_field` with everything that is wrong with the request
 */
export async function issueKey(request: unknown, config: Config, store: KeyStore, now = Date.now()): Promise<IssuedKey> {
  const asked = checked(request)
  const name = asked.name ?? `${asked.member ?? asked.project ?? asked.tenant}-${randomBytes(4).toString('hex')}`
  refuseProblems(problemsOf(asked, config, now))
  refuseTaken(name, config, store)
  const { tenant, project, member, models, limits, budget, expires } = asked
  const secret = `sk-${base62(randomBytes(32))}`
  const stored: StoredKey = {
    name,
    sha256: createHash('sha256').update(secret).digest(),
    hint: `${secret.slice(0, 7)}…${secret.slice(-4)}`,
    tenant, project, member, models, endpoints: asked.endpoints, limits,
    budget: budget && { limit: budget.usd, per: budget.per },
    expires,
    created: now
  }
  await store.create(stored)
  return { stored, secret }
}

type Problem = readonly [field: string, message: string]

function checked(request: unknown): KeyRequest {
  const { value, faults } = checkerOf(shape, ['tenant'])(request)
  refuseProblems(faults.map(({ pointer, message }) => [pointer.slice(1).replaceAll('/', '.'), message]))
  return value
}

function problemsOf(asked: KeyRequest, config: Config, now: number): Problem[] {
  const problems: Problem[] = []
  const { tenant, project, member, expires } = asked
  const missing = (level: string, name: string, known: Iterable<string>): void => {
    problems.push([level, `${config.file} has no ${level} ${JSON.stringify(name)} there${suggestion(name, [...known])}`])
  }
  const owner = config.tenants.get(tenant)
  const within = project === undefined ? undefined : owner?.projects.get(project)
  if (!owner) missing('tenant', tenant, config.tenants.keys())
  else if (project !== undefined && !within) missing('project', project, owner.projects.keys())
  else if (member !== undefined && !within) problems.push(['project', 'is missing: a member belongs to one'])
  else if (member !== undefined && !within!.members.has(member)) missing('member', member, within!.members.keys())
  const known = [...new Set([...channelEndpoints, ...endpoints.map((endpoint) => endpoint.name)])]
  for (const glob of asked.endpoints) {
    if (!glob.includes('*') && !known.includes(glob)) problems.push(['endpoints', `no endpoint ${JSON.stringify(glob)}${suggestion(glob, known)}`])
  }
  for (const glob of asked.models) {
    const models = [...config.models.keys()]
    if (!glob.includes('*') && !models.includes(glob)) problems.push(['models', `no model ${JSON.stringify(glob)}${suggestion(glob, models)}`])
  }
  if (expires !== undefined && expires <= now) problems.push(['expires', 'is in the past'])
  return problems
}

function refuseProblems(problems: readonly Problem[]): void {
  const [first] = problems
  if (!first) return
  const message = problems.map(([field, text]) => (field === '' ? text : `${field}: ${text}`)).join('; ')
  throw new GatewayError('invalid_field', `${message}.`, { param: first[0] === '' ? undefined : first[0] })
}

function refuseTaken(name: string, config: Config, store: KeyStore): void {
  const declared = config.keys.some((key) => key.name === name)
  const stored = store.all().find((key) => key.name === name)
  if (!declared && !stored) return
  const where = declared ? `in ${config.file}` : stored!.revoked === undefined ? 'in the store' : 'in the store, revoked'
  throw new GatewayError('invalid_field', `name: there is a key "${name}" already, ${where}: choose another name.`, { param: 'name', status: 409 })
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Letters and digits only, so that a double click selects all of it. 32 bytes make 43 characters. */
function base62(bytes: Buffer): string {
  let number = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; text.length < 43; number /= 62n) text += alphabet[Number(number % 62n)]
  return text
}
