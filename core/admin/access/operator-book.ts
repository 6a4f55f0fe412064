// Finds the operator of a token, and remembers when tokens were last used.
import { GatewayError } from '../../errors.ts'
import { changeOf } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import type { Grant } from './roles.ts'
import { operatorDocuments, useDocuments } from './stored-operator.ts'
import type { StoredOperator, StoredToken } from './stored-operator.ts'
import { digestOf } from './tokens.ts'
import { thrownText } from '../../thrown.ts'

/** The least milliseconds between two writes of a token's last use. */
const writeEvery = 60_000

type ByHash = Map<string, { operator: StoredOperator; token: StoredToken }>

/** An operator whose token was recognised, and what it may do. */
export interface Recognised extends Grant {
  readonly name: string
}

/** The operators of a running gateway. Close it with the listener. */
export class OperatorBook {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #written = new Map<string, number>()
  #tokens: ByHash | undefined

  /** Stops watching the documents. */
  readonly close: () => void

  constructor(documents: Documents, log: Logger) {
    this.#documents = documents
    this.#log = log
    this.close = documents.watch((changes) => {
      if (changes.some(({ kind }) => kind === operatorDocuments.name)) this.#tokens = undefined
    })
  }

  /**
   * Finds whose token it is; undefined when it is nobody's. It is looked up by its hash, so that the time which this
   * takes tells nothing about tokens there are.
   * @throws GatewayError when the token is over, or its operator is disabled or revoked
   */
  find(presented: string): Recognised | undefined {
    const found = this.#byHash().get(digestOf(presented))
    if (!found) return undefined
    const {
      operator: { name, settings, revoked },
      token
    } = found
    const now = Date.now()
    if (revoked !== undefined) throw over('revoked', `The operator ${name} is revoked.`)
    if (token.expires <= now)
      throw over('expired', `This token of the operator ${name} has expired: ask for another one.`)
    if (settings.enabled === false) throw over('disabled', `The operator ${name} is disabled.`)
    this.#use(name, token.sha256, now)
    return { name, role: settings.role, tenant: settings.tenant ?? null }
  }

  /** What an operator who signed in by the token of this hash may do, and until when; undefined when nothing now. */
  standing(name: string, sha256: string): (Grant & { until: number }) | undefined {
    const { operator, token } = this.#byHash().get(sha256) ?? {}
    if (!operator || !token || operator.name !== name || operator.revoked !== undefined) return undefined
    const { role, tenant = null, enabled = true } = operator.settings
    return enabled && token.expires > Date.now() ? { role, tenant, until: token.expires } : undefined
  }

  #byHash(): ByHash {
    this.#tokens ??= new Map(
      this.#documents
        .all(operatorDocuments)
        .flatMap((operator) => operator.tokens.map((token) => [token.sha256, { operator, token }] as const))
    )
    return this.#tokens
  }

  #use(name: string, sha256: string, now: number): void {
    if (now - (this.#written.get(sha256) ?? 0) < writeEvery) return
    this.#written.set(sha256, now)
    const present = new Set(this.#documents.find(operatorDocuments, name)?.tokens.map((token) => token.sha256))
    const before = Object.entries(this.#documents.find(useDocuments, name) ?? {})
    const uses = Object.fromEntries([...before.filter(([known]) => present.has(known)), [sha256, now]])
    try {
      this.#documents.note([changeOf(useDocuments, name, uses)])
    } catch (error) {
      this.#log.warn('the last use of an admin token was not written', { operator: name, error: thrownText(error) })
    }
  }
}

function over(how: 'revoked' | 'expired' | 'disabled', message: string): GatewayError {
  return new GatewayError('expired_api_key', message, {
    shownCode: `${how}_admin_token`,
    headers: [['www-authenticate', 'Bearer realm="sluice admin", error="invalid_token"']]
  })
}
