// What signs people in at one listener, put together.
import type { IncomingMessage } from 'node:http'
import type { Settings } from '../../catalogue/settings.ts'
import type { Awaitable } from '../../contract/contract.ts'
import type { Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import type { Actor } from '../api/audit.ts'
import { Entrants } from './entrants.ts'
import type { Entrant } from './entrants.ts'
import type { OperatorBook } from './operator-book.ts'
import { Origins } from './origins.ts'
import type { Grant } from './roles.ts'
import { SessionCookies } from './session-cookies.ts'
import { Sessions } from './sessions.ts'
import type { Seal } from './seal.ts'
import { SignIn } from './sign-in.ts'
import type { Identity } from './sign-in.ts'
import type { TokenCheck } from './token-check.ts'
import { Tries } from './tries.ts'

/** What it is made of. */
export interface SigningInParts {
  readonly settings: NonNullable<Settings['admin']>
  /** The address that the listener is bound to. */
  readonly url: string
  readonly documents: Documents
  readonly seal: Seal
  readonly operators: OperatorBook
  readonly tokens: TokenCheck
  readonly log: Logger
  /** The routes that somebody may use: `GET /admin/v1/keys`. */
  rightsOf(grant: Grant): readonly string[]
  /** Notes that somebody was not let in; `who` is whom the provider named. */
  refusedSignIn(address: string, why: string, who?: Identity): void
}

/** Signs people in, and knows them again. */
export class SigningIn {
  readonly origins: Origins
  readonly cookies: SessionCookies
  readonly sessions: Sessions
  readonly tries = new Tries()
  /** The sign-in by OpenID Connect; undefined when gateway.yaml has none. */
  readonly provider: SignIn | undefined
  /** Where sign-ins by the provider have to begin, when browsers reach the listener by its own address. */
  readonly home: string | undefined
  readonly rightsOf: SigningInParts['rightsOf']
  readonly refusedSignIn: SigningInParts['refusedSignIn']
  readonly #entrants: Entrants
  readonly #tokens: TokenCheck

  constructor({ settings, url, documents, seal, operators, tokens, log, rightsOf, refusedSignIn }: SigningInParts) {
    const { oidc, token, session } = settings
    const base = oidc?.base_url
    this.origins = new Origins([...settings.origins, ...(base === undefined ? [] : [new URL(base).origin])])
    this.cookies = new SessionCookies(this.origins)
    this.provider = oidc && new SignIn(oidc, base ?? url, seal)
    this.home = base === undefined ? url : undefined
    this.#entrants = new Entrants(token, operators, this.provider)
    this.sessions = new Sessions(documents, this.#entrants, this, session, log)
    this.#tokens = tokens
    this.rightsOf = rightsOf
    this.refusedSignIn = refusedSignIn
  }

  /** Whether nobody can read along what a browser sends by this `Host`. */
  readonly isPrivate = (host: string): boolean => this.origins.isPrivate(host)

  /**
   * Whom a token lets in.
   * @throws GatewayError when it is nobody's, or over, or the address has to wait
   */
  async byToken(token: string, address: string): Promise<Entrant> {
    return this.#entrants.byToken(await this.#tokens.ownerOf(token, address, '/admin/v1/session'), token)
  }

  /** The actor of a request with a session, see {@link Sessions.actorOf}. */
  readonly actorOf = (request: IncomingMessage, unseen?: boolean): Awaitable<Actor> | undefined =>
    this.sessions.actorOf(request, unseen)
}
