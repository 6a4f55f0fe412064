// Who has signed in, and what that allows now: whoever has admin.token, an operator with a token, or somebody whom the
// provider knows.
import { scrypt } from 'node:crypto'
import { promisify } from 'node:util'
import type { Actor } from '../api/audit.ts'
import type { OperatorBook } from './operator-book.ts'
import { everything } from './roles.ts'
import type { Grant } from './roles.ts'
import { actorOf } from './sign-in.ts'
import type { Identity, SignIn } from './sign-in.ts'
import { digestOf } from './tokens.ts'

/** Whoever signed in by the token of gateway.yaml. `proof` is a slow hash of it, as people may choose weak ones. */
export interface TokenHolder {
  readonly how: 'admin_token'
  readonly proof: string
}

/** An operator who signed in by the token of this SHA-256, in hexadecimal. */
export interface OperatorHolder {
  readonly how: 'operator_token'
  readonly operator: string
  readonly sha256: string
}

/** Whoever signed in, as sessions keep it. An {@link Identity} came by OpenID Connect. */
export type Entrant = TokenHolder | OperatorHolder | Identity

/** What somebody may do, and until when if that is known; Unix milliseconds. */
export interface Standing extends Grant {
  readonly until?: number
}

/** What tells an entrant from others, as the audit log names actors. */
export type Named = Pick<Actor, 'kind' | 'id' | 'name'>

/** The entrants of one listener. */
export class Entrants {
  readonly #token: string
  readonly #operators: Pick<OperatorBook, 'standing'>
  readonly #signIn: SignIn | undefined
  #proof: Promise<string> | undefined

  /** `token` is that of gateway.yaml; empty for none. */
  constructor(token: string, operators: Pick<OperatorBook, 'standing'>, signIn: SignIn | undefined) {
    this.#token = token
    this.#operators = operators
    this.#signIn = signIn
  }

  /** The entrant of a token that was checked; `actor` is whose it is. */
  async byToken({ kind, id }: Actor, token: string): Promise<Entrant> {
    if (kind === 'operator') return { how: 'operator_token', operator: id, sha256: digestOf(token) }
    return { how: 'admin_token', proof: await this.#ownProof() }
  }

  /**
   * What an entrant may do now; undefined when nothing any more.
   * @throws GatewayError `sign_in_refused` when groups would have to choose one of several tenants
   */
  async standing(who: Entrant): Promise<Standing | undefined> {
    if ('issuer' in who) return this.#signIn?.grantOf(who)
    if (who.how === 'operator_token') return this.#operators.standing(who.operator, who.sha256)
    return this.#token !== '' && who.proof === (await this.#ownProof()) ? everything : undefined
  }

  #ownProof(): Promise<string> {
    return (this.#proof ??= slowHash(this.#token))
  }
}

/** How somebody proved who they are. */
export function wayOf(who: Entrant): 'admin_token' | 'operator_token' | 'oidc' {
  return 'issuer' in who ? 'oidc' : who.how
}

/** Names an entrant as the audit log does. */
export function namedOf(who: Entrant): Named {
  if ('issuer' in who) return { kind: 'session', ...actorOf(who) }
  return who.how === 'operator_token' ? { kind: 'operator', id: who.operator } : { kind: 'token', id: 'admin.token' }
}

/** Takes tens of milliseconds, beside the event loop. */
async function slowHash(token: string): Promise<string> {
  const hash = await (promisify(scrypt) as (text: string, salt: string, bytes: number) => Promise<Buffer>)(
    token,
    'admin.token of sluice',
    32
  )
  return hash.toString('base64url')
}
