// The tenancy of a generation: who a key belongs to and what it may do, by gateway.yaml and by what is in the store.
import { timingSafeEqual } from 'node:crypto'
import type { Awaitable } from '../awaitable.ts'
import { digestOf, secretPrefix } from '../catalogue/caller.ts'
import type { Caller, Rights, Scope } from '../catalogue/caller.ts'
import type { Catalogue, Tenant } from '../catalogue/catalogue.ts'
import type { Config, Problem } from '../catalogue/settings.ts'
import type { DocumentChange, Documents } from '../store/documents.ts'
import type { KeptSecret, Secrets } from '../store/secrets.ts'
import type { RuleReason } from '../errors.ts'
import { Callers } from './callers.ts'
import type { Held } from './held.ts'
import { Levels, storedRights } from './levels.ts'
import { whyInvalid } from './refusals.ts'
import { keyDocuments, levelKinds } from './stored.ts'
import { Presented } from './presented.ts'
import { StoredKeys } from './stored-keys.ts'

/** How many were made, so that budgets of an earlier configuration are told from those of a later one. */
let generations = 0
/** More than a configuration sees of changes at run time: the budgets of a later one always have greater numbers. */
const mostChanges = 2 ** 32

/**
 * Finds callers and tenants. Changes in the store count from the next request on, in every generation that is in use. A
 * key is not found when its tenant, project or member is missing, closed or disabled.
 */
export class Tenancy implements Pick<
  Catalogue,
  'tenants' | 'findPresented' | 'findKey' | 'whyNoKey' | 'scopesNow' | 'scope'
> {
  readonly levels: Levels
  /** The generation of the budgets: greater after each change, as requests that came before it are still admitted. */
  #generation = ++generations * mostChanges
  readonly #config: Config
  readonly #documents: Documents
  readonly #secrets: Secrets
  readonly #unwatch: () => void
  /** The secrets of the keys of the file, by the SHA-256 as latin1. */
  readonly #declared: ReadonlyMap<string, Held>
  /** Those of the store. Of two keys with the same secret, that of the file counts. */
  readonly #stored: StoredKeys
  #callers: Callers
  #tenants: ReadonlyMap<string, Tenant> | undefined
  readonly #presented = new Presented()
  /** The callers by client secret. Each is kept as long as its secret object is. */
  readonly #bearers = new WeakMap<KeptSecret, { issuer: Caller; caller: Caller }>()

  /** `secrets` are the client secrets. Call {@link Tenancy.close} when the generation is over. */
  constructor(config: Config, documents: Documents, secrets: Secrets) {
    this.#config = config
    this.#documents = documents
    this.#secrets = secrets
    this.levels = new Levels(config, documents)
    this.#callers = this.#makeCallers()
    this.#stored = StoredKeys.of(documents)
    this.#declared = new Map(
      config.keys.map((key) => [
        key.sha256.toString('latin1'),
        { sha256: key.sha256, key: () => key, until: undefined }
      ])
    )
    this.#unwatch = documents.watch((changes) => this.#follow(changes))
  }

  /** The names that are both in the file and in the store, with their places in the file. */
  clashes(): Problem[] {
    const { places, keys } = this.#config
    const clashing = keys.filter(({ name }) => this.#documents.find(keyDocuments, name))
    return [
      ...this.levels.clashes(places),
      ...clashing.map(({ name, place }) => ({
        place,
        message: `a key named ${name} is in the store too, maybe revoked: choose another name`
      }))
    ]
  }

  get tenants(): ReadonlyMap<string, Tenant> {
    this.#tenants ??= new Map(
      this.levels
        .of('tenant')
        .map(({ path: [name], rights, foreignReferences }) => [name, { name, ...rights, foreignReferences }])
    )
    return this.#tenants
  }

  findPresented(secret: string): Awaitable<Caller | undefined> {
    const before = this.#presented.get(secret)
    if (before) return before
    const sha256 = digestOf(secret)
    const held = this.#heldOf(sha256.toString('latin1'))
    // What cannot be a client secret is not looked for among them, where another machine may have to be asked.
    if (!held) return secret.startsWith(secretPrefix) ? this.#findBearer(sha256) : undefined
    const caller = this.#callerOf(held, sha256)
    if (caller && held.until === undefined) this.#presented.add(secret, caller)
    return caller
  }

  findKey(sha256: Buffer): Caller | undefined {
    const held = this.#heldOf(sha256.toString('latin1'))
    return held && this.#callerOf(held, sha256)
  }

  whyNoKey(sha256: Buffer): RuleReason {
    const text = sha256.toString('latin1')
    const held = this.#heldOf(text)
    if (held) return whyInvalid(held, this.levels, Date.now())
    const name = this.#stored.revoked(text)
    const revoked = name === undefined ? undefined : this.#documents.find(keyDocuments, name)?.revoked
    const remedy = 'make another key'
    if (revoked !== undefined)
      return {
        by: 'key',
        what: `the key ${name} was revoked at ${new Date(revoked).toISOString()}`,
        where: `key:${name} in the store`,
        remedy
      }
    // The beginning of the hash tells one unknown key from another, and nothing of either.
    const start = sha256.toString('hex', 0, 4)
    return { by: 'key', what: `no key has this secret, whose SHA-256 begins with ${start}`, where: null, remedy: null }
  }

  scopesNow(opened: Caller): readonly Scope[] {
    const now = this.findKey(opened.secret?.issuer ?? opened.digest)
    return now ? this.#callers.scopesNow(opened, now) : opened.scopes
  }

  scope(id: string): Scope | undefined {
    const colon = id.indexOf(':')
    const [kind, name] = [id.slice(0, colon) as Scope['kind'], id.slice(colon + 1)]
    const rights = kind === 'key' ? this.#rightsOfKey(name) : this.levels.at(id)?.rights
    return rights && { kind, id, budgets: rights.budgets, generation: this.#generation }
  }

  /** Follows no more changes. */
  close(): void {
    this.#unwatch()
  }

  #rightsOfKey(name: string): Rights | undefined {
    const stored = this.#documents.find(keyDocuments, name)
    return this.#config.keys.find((key) => key.name === name) ?? (stored && storedRights(stored.settings, 'key'))
  }

  #heldOf(text: string): Held | undefined {
    return this.#declared.get(text) ?? this.#stored.find(text)
  }

  /**
   * The time of the lookup before it depends on digests, which reveal nothing of a secret. The final comparison takes
   * constant time.
   */
  #callerOf(held: Held, sha256: Buffer): Caller | undefined {
    const { until } = held
    if (held.sha256.length !== sha256.length || !timingSafeEqual(held.sha256, sha256)) return undefined
    if (until !== undefined && until <= Date.now()) return undefined
    return this.#callers.of(held)
  }

  #findBearer(sha256: Buffer): Awaitable<Caller | undefined> {
    const secret = this.#secrets.find(sha256)
    return secret instanceof Promise ? secret.then((found) => this.#bearerOf(found)) : this.#bearerOf(secret)
  }

  #bearerOf(secret: KeptSecret | undefined): Caller | undefined {
    const issuer = secret && this.findKey(secret.issuer)
    if (!issuer) return undefined
    let bearer = this.#bearers.get(secret)
    if (bearer?.issuer !== issuer)
      this.#bearers.set(secret, (bearer = { issuer, caller: narrowed(issuer, secret, this.#secrets) }))
    return bearer.caller
  }

  #follow(changes: readonly DocumentChange[]): void {
    let relevant = false
    for (const { kind, id } of changes) {
      if (kind === keyDocuments.name) {
        relevant = true
        this.#presented.forget(id)
      } else if (levelKinds.some((level) => level === kind)) {
        relevant = true
        this.#tenants = undefined
        this.#callers = this.#makeCallers()
        this.#presented.clear()
      }
    }
    if (relevant) this.#generation++
  }

  #makeCallers(): Callers {
    return new Callers(() => this.#generation, this.levels, this.#config.models)
  }
}

/**
 * The caller for a client secret: the rights of the key that made it, limited to one endpoint, one model and a short
 * time.
 */
function narrowed(issuer: Caller, secret: KeptSecret, secrets: Secrets): Caller {
  const { sha256, settings, budget } = secret
  const allowance = budget !== undefined && {
    limit: budget,
    spent: () => secrets.spent(sha256),
    hold: (name: string, amount: bigint) => secrets.hold(sha256, name, amount),
    end: (name: string, charged: bigint) => secrets.end(sha256, name, charged)
  }
  return {
    ...issuer,
    digest: sha256,
    secret: { issuer: secret.issuer, settings, ...(allowance && { allowance }) },
    mayUse: (model) => model === secret.model && issuer.mayUse(model),
    mayCall: (endpoint) => endpoint === 'realtime' && issuer.mayCall(endpoint),
    whyNot(asked, name) {
      const allowed = asked === 'model' ? issuer.mayUse(name) : asked === 'endpoint' && issuer.mayCall(name)
      if (!allowed && (asked !== 'time' || secret.expires >= (issuer.expires ?? Infinity)))
        return issuer.whyNot(asked, name)
      const what =
        asked === 'time'
          ? `a client secret of the key ${issuer.key} expired at ${new Date(secret.expires).toISOString()}`
          : `a client secret of the key ${issuer.key} is for sessions of ${secret.model} alone`
      return { by: asked === 'time' ? 'key' : asked, what, where: null, remedy: null }
    },
    expires: Math.min(secret.expires, issuer.expires ?? Infinity)
  }
}
