// The keys of a generation: those of gateway.yaml and those of the key store, with the rights of each.
import { timingSafeEqual } from 'node:crypto'
import { compileGlobs } from '../catalogue/globs.ts'
import type { Matches } from '../catalogue/globs.ts'
import { tagsOf } from '../catalogue/caller.ts'
import type { Caller, Scope } from '../catalogue/caller.ts'
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Config, ConfigKey, ConfigTenant, Problem } from '../catalogue/settings.ts'
import type { KeyStore, StoredKey } from '../store/keys.ts'
import type { KeptSecret, Secrets } from '../store/secrets.ts'

/** A catalogue with the keys of the file and of the store, or the problems when both have keys of the same name. */
export type Keyring =
  | { catalogue: Catalogue; problems?: undefined }
  | { catalogue?: undefined; problems: readonly Problem[] }

/**
 * Builds the catalogue of a generation. Keys that are made or revoked in the store count from the next request on, in
 * every generation. A stored key is not found when its tenant, project or member is not in the file.
 */
export function openKeyring(config: Config, store: KeyStore, secrets: Secrets): Keyring {
  const problems = clashes(config, store)
  if (problems.length > 0) return { problems }
  const callers = new Callers(config)
  const declared = new Map(config.keys.map((key) => [key.sha256.toString('latin1'), key]))
  /**
   * Callers by the digest object that was presented. It works because the same object is presented again for the same
   * key.
   */
  const found = new WeakMap<Buffer, Caller>()
  const { channels, models, tenants } = config
  const findKey = (sha256: Buffer): Caller | undefined => {
    const before = found.get(sha256)
    if (before) return before
    // The time of the lookup depends on digests, which reveal nothing of a secret. The final comparison takes constant
    // time.
    const text = sha256.toString('latin1')
    const key = declared.get(text) ?? live(store.find(sha256))
    if (!key) return bySecret(sha256)
    const caller =
      key.sha256.length === sha256.length && timingSafeEqual(key.sha256, sha256) ? callers.of(key) : undefined
    // The result is not remembered for a key of the store, which may be revoked.
    if (caller && declared.has(text)) found.set(sha256, caller)
    return caller
  }
  /** The callers by client secret. Each is kept as long as its secret object is. */
  const bearers = new WeakMap<KeptSecret, { issuer: Caller; caller: Caller }>()
  const bySecret = (sha256: Buffer): Caller | undefined => {
    const secret = secrets.find(sha256)
    const issuer = secret && findKey(secret.issuer)
    if (!issuer) return undefined
    let bearer = bearers.get(secret)
    if (bearer?.issuer !== issuer) bearers.set(secret, (bearer = { issuer, caller: narrowed(issuer, secret) }))
    return bearer.caller
  }
  const scopesNow = (opened: Caller): readonly Scope[] => {
    const now = findKey(opened.secret?.issuer ?? opened.digest)
    return now ? callers.scopesNow(opened, now) : opened.scopes
  }
  return { catalogue: { channels, models, tenants, findKey, scopesNow } }
}

/**
 * The caller for a client secret: the rights of the key that made it, limited to one endpoint, one model and a short
 * time.
 */
function narrowed(issuer: Caller, secret: KeptSecret): Caller {
  return {
    ...issuer,
    digest: secret.sha256,
    secret,
    mayUse: (model) => model === secret.model && issuer.mayUse(model),
    mayCall: (endpoint) => endpoint === 'realtime' && issuer.mayCall(endpoint),
    expires: Math.min(secret.expires, issuer.expires ?? Infinity)
  }
}

function clashes({ file, keys }: Config, store: KeyStore): Problem[] {
  const stored = new Set(store.all().map((key) => key.name))
  return keys
    .filter((key) => stored.has(key.name))
    .map(({ name, at }) => ({
      place: `${file}:${at.line}:${at.column}`,
      message: `a key named ${name} is in the store too, maybe revoked: choose another name`
    }))
}

function live(key: StoredKey | undefined): StoredKey | undefined {
  return key?.revoked === undefined ? key : undefined
}

type Key = ConfigKey | StoredKey
/** The callers by key, each made on its first request. */
class Callers {
  readonly #config: Config
  readonly #made = new WeakMap<Key, Caller>()
  /** The scopes of callers whose key has moved since they were found. */
  readonly #moved = new WeakMap<Caller, { now: Caller; scopes: readonly Scope[] }>()
  /** Compiled lists of globs, shared by all keys, members and tenants with the same list. */
  readonly #compiled = new Map<string, Matches>()

  constructor(config: Config) {
    this.#config = config
  }

  /** Undefined when the tenant, project or member of the key is not in the file. */
  of(key: Key): Caller | undefined {
    let caller = this.#made.get(key)
    if (caller) return caller
    const tenant = this.#config.tenants.get(key.tenant)
    caller = tenant && this.#make(key, tenant)
    if (caller) this.#made.set(key, caller)
    return caller
  }

  /** See {@link Catalogue.scopesNow}. `now` is who has the key in this configuration. */
  scopesNow(opened: Caller, now: Caller): readonly Scope[] {
    const { scopes } = opened
    if (scopes.length === now.scopes.length && scopes.every(({ id }, at) => id === now.scopes[at]!.id))
      return now.scopes
    let moved = this.#moved.get(opened)
    if (moved?.now !== now) {
      const tenant = this.#config.tenants.get(opened.tenant)
      const project = tenant?.projects.get(opened.project ?? '')
      const member = project?.members.get(opened.member ?? '')
      const levels = { tenant, project, member, key: now.scopes.at(-1) }
      const own = scopes.map((scope) => {
        const level = levels[scope.kind]
        return level ? { ...scope, budget: level.budget } : scope
      })
      this.#moved.set(opened, (moved = { now, scopes: own }))
    }
    return moved.scopes
  }

  #make(key: Key, tenant: ConfigTenant): Caller | undefined {
    const project = key.project === undefined ? undefined : tenant.projects.get(key.project)
    const member = key.member === undefined ? undefined : project?.members.get(key.member)
    if ((key.project !== undefined && !project) || (key.member !== undefined && !member)) return undefined
    const layers = [tenant.models, member?.models, key.models].filter((globs) => globs !== undefined)
    const scopes: Scope[] = [{ kind: 'tenant', id: `tenant:${key.tenant}`, budget: tenant.budget }]
    const path = `${key.tenant}/${key.project}`
    if (project) scopes.push({ kind: 'project', id: `project:${path}`, budget: project.budget })
    if (member) scopes.push({ kind: 'member', id: `member:${path}/${key.member}`, budget: member.budget })
    scopes.push({ kind: 'key', id: `key:${key.name}`, budget: key.budget, tags: key.tags })
    return {
      key: key.name,
      digest: key.sha256,
      tenant: key.tenant,
      project: key.project,
      member: key.member,
      scopes,
      tags: tagsOf(scopes),
      limits: key.limits,
      mayUse: this.#remembered(layers.map((globs) => this.#compile(globs))),
      mayCall: this.#compile(key.endpoints),
      expires: key.expires
    }
  }

  #compile(globs: readonly string[]): Matches {
    const id = JSON.stringify(globs)
    let matches = this.#compiled.get(id)
    if (!matches) this.#compiled.set(id, (matches = compileGlobs(globs)))
    return matches
  }

  /**
   * Whether all layers match a model. Results are remembered for known models only, because clients may send any name.
   */
  #remembered(layers: readonly Matches[]): Matches {
    const { models } = this.#config
    const answers = new Map<string, boolean>()
    return (model) => {
      let answer = answers.get(model)
      if (answer === undefined) {
        answer = layers.every((matches) => matches(model))
        if (models.has(model)) answers.set(model, answer)
      }
      return answer
    }
  }
}
