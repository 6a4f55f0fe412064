// Signs people in by OpenID Connect: the way to the provider and back, and which grant their groups give.
import type * as OpenId from 'openid-client'
import { GatewayError } from '../../errors.ts'
import { isMap } from '../../options/schema-check.ts'
import type { OidcSettings } from '../../catalogue/settings.ts'
import type { Grant } from './roles.ts'
import type { Seal } from './seal.ts'

/** How long somebody may take at the provider, in milliseconds. */
const patience = 600_000
/** What the seal of a journey is for. */
const place = 'sign-in'

/** Who came back from the provider. Identity is the issuer and the subject, never a name or an e-mail address. */
export interface Identity {
  readonly issuer: string
  readonly subject: string
  /** What the provider calls them, for people. */
  readonly name: string
  /** Those of their groups that gateway.yaml gives a role. */
  readonly groups: readonly string[]
  /** The tenant that they asked for, which matters to whose groups name several. */
  readonly tenant: string | null
}

/** Somebody on the way to the provider. It is kept in a sealed cookie, so that a rush of them needs no memory. */
interface Journey {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  readonly tenant: string | null
  /** Where to go afterwards: a path of this listener. */
  readonly to: string
  readonly begun: number
}

/** The sign-in of one gateway. The library is loaded, and the provider asked, when somebody signs in. */
export class SignIn {
  readonly #settings: OidcSettings
  readonly #redirect: string
  readonly #seal: Seal
  #provider: Promise<{ client: typeof OpenId; config: OpenId.Configuration }> | undefined

  /** `base` is the address by which browsers reach the listener. */
  constructor(settings: OidcSettings, base: string, seal: Seal) {
    this.#settings = settings
    this.#seal = seal
    this.#redirect = `${base}/admin/callback`
  }

  /**
   * Begins a sign-in: the address at the provider, and what the browser has to bring back.
   * @throws GatewayError `sign_in_unavailable` when the provider does not answer
   */
  async begin(tenant: string | null, to: string): Promise<{ address: string; journey: string }> {
    const { client, config } = await this.#discovered()
    await this.#seal.ready()
    const journey: Journey = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
      tenant,
      to,
      begun: Date.now()
    }
    const address = client.buildAuthorizationUrl(config, {
      redirect_uri: this.#redirect,
      scope: this.#settings.scopes.join(' '),
      state: journey.state,
      nonce: journey.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(journey.verifier),
      code_challenge_method: 'S256'
    })
    return { address: address.href, journey: this.#seal.close(JSON.stringify(journey), place) }
  }

  /**
   * Ends a sign-in with the query that the provider sent the browser back with.
   * @throws GatewayError `sign_in_refused` when it is none of ours, or `sign_in_unavailable`
   */
  async end(search: string, sealed: string | undefined): Promise<{ who: Identity; to: string }> {
    const journey = sealed === undefined ? undefined : this.#open(sealed)
    if (!journey) throw refused('This sign-in did not begin in this browser, or took too long: begin again.')
    const { client, config } = await this.#discovered()
    const checks = {
      pkceCodeVerifier: journey.verifier,
      expectedState: journey.state,
      expectedNonce: journey.nonce,
      idTokenExpected: true
    }
    try {
      const tokens = await client.authorizationCodeGrant(config, new URL(this.#redirect + search), checks)
      const claims = tokens.claims()!
      const userinfo = config.serverMetadata().userinfo_endpoint
        ? await client.fetchUserInfo(config, tokens.access_token, claims.sub)
        : {}
      return { who: this.#identityOf(claims, [claims, userinfo], journey.tenant), to: journey.to }
    } catch (error) {
      if (error instanceof GatewayError) throw error
      throw refused(`The provider did not confirm this sign-in: ${(error as Error).message}.`, error)
    }
  }

  /**
   * What the groups of somebody allow; undefined when nothing.
   * @throws GatewayError `sign_in_refused` when they would have to choose one of several tenants
   */
  grantOf({ issuer, groups, tenant }: Identity): Grant | undefined {
    const { roles, issuer: ours } = this.#settings
    if (issuer !== ours) return undefined
    const has = (mapped: readonly string[]): boolean => mapped.some((group) => groups.includes(group))
    if (has(roles.owner)) return { role: 'owner', tenant: null }
    if (has(roles.operator)) return { role: 'operator', tenant: null }
    const tenantsOf = (mapped: OidcSettings['roles']['tenant_admin']): string[] =>
      Object.entries(mapped).flatMap(([name, given]) => (has(given) && (tenant ?? name) === name ? [name] : []))
    const administered = chosen(tenantsOf(roles.tenant_admin), 'administer')
    if (administered !== undefined) return { role: 'tenant_admin', tenant: administered }
    if (has(roles.viewer)) return { role: 'viewer', tenant: null }
    const seen = chosen(tenantsOf(roles.tenant_viewer), 'see')
    return seen === undefined ? undefined : { role: 'viewer', tenant: seen }
  }

  #identityOf(
    claims: { iss: string; sub: string },
    sources: readonly Readonly<Record<string, unknown>>[],
    tenant: string | null
  ): Identity {
    const { groups_claim: claim, roles, issuer } = this.#settings
    const mapped = new Set([
      ...roles.owner,
      ...roles.operator,
      ...roles.viewer,
      ...Object.values(roles.tenant_admin).flat(),
      ...Object.values(roles.tenant_viewer).flat()
    ])
    const given = sources.flatMap((source) => source[claim] ?? [])
    const elsewhere = sources.some(
      (source) => source['hasgroups'] === true || (isMap(source['_claim_names']) && claim in source['_claim_names'])
    )
    // Entra leaves the groups out when they are too many. To take that for none would lock people out without a word.
    if (given.length === 0 && elsewhere)
      throw refused(
        `The provider left out the groups, because there are too many: assign app roles there, and say "groups_claim: roles".`
      )
    const groups = given.filter((group): group is string => typeof group === 'string' && mapped.has(group))
    const called = sources
      .map((source) => source['preferred_username'] ?? source['email'] ?? source['name'])
      .find((name) => typeof name === 'string')
    return { issuer, subject: claims.sub, name: String(called ?? claims.sub).slice(0, 128), groups, tenant }
  }

  #discovered(): Promise<{ client: typeof OpenId; config: OpenId.Configuration }> {
    this.#provider ??= this.#discover().catch((error: Error) => {
      this.#provider = undefined
      throw new GatewayError(
        'upstream_connection_failed',
        `The provider of sign-ins does not answer: ${error.message}.`,
        {
          shownCode: 'sign_in_unavailable',
          cause: error
        }
      )
    })
    return this.#provider
  }

  async #discover(): Promise<{ client: typeof OpenId; config: OpenId.Configuration }> {
    const { issuer, client_id: id, client_secret: secret } = this.#settings
    const client = await import('openid-client')
    // The file allows http for loopback addresses alone.
    const execute = issuer.startsWith('http://') ? [client.allowInsecureRequests] : []
    const authentication = secret === '' ? client.None() : undefined
    const config = await client.discovery(new URL(issuer), id, secret === '' ? undefined : secret, authentication, {
      execute
    })
    return { client, config }
  }

  #open(sealed: string): Journey | undefined {
    const text = this.#seal.open(sealed, place)
    const journey = text === undefined ? undefined : (JSON.parse(text) as Journey)
    return journey && Date.now() - journey.begun <= patience ? journey : undefined
  }
}

/**
 * The one tenant of those for which groups give a role; undefined when there is none.
 * @throws GatewayError when there are several
 */
function chosen(tenants: readonly string[], what: 'administer' | 'see'): string | undefined {
  const [first, ...others] = tenants
  if (others.length === 0) return first
  throw refused(`Your groups ${what} ${tenants.join(', ')}: choose one, as in /admin/login?tenant=${first}.`)
}

/** What tells somebody from all others, and what they are called. */
export function actorOf({ issuer, subject, name }: Identity): { id: string; name: string } {
  return { id: `${issuer}#${subject}`, name }
}

/** The error for somebody who may not come in. */
export function refused(message: string, cause?: unknown): GatewayError {
  return new GatewayError('endpoint_not_allowed', message, { shownCode: 'sign_in_refused', cause })
}
