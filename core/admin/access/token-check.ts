// Checks tokens: that of gateway.yaml, and those of operators.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Awaitable } from '../../contract/contract.ts'
import { GatewayError } from '../../errors.ts'
import type { Actor } from '../api/audit.ts'
import { WrongTokens } from '../wrong-tokens.ts'
import type { TellWrong } from '../wrong-tokens.ts'
import type { Recognised } from './operator-book.ts'
import { everything } from './roles.ts'
import { isWhole, tokenPrefix } from './tokens.ts'

/** What a check needs beside the token of gateway.yaml. */
export interface TokenHolders {
  /**
   * Finds the operator of a token.
   * @throws GatewayError when it is over
   */
  find(token: string): Recognised | undefined
  wrongToken: TellWrong
}

/** The token check of one listener. */
export class TokenCheck {
  readonly #expected: Buffer | undefined
  readonly #holders: TokenHolders
  readonly #wrong: WrongTokens

  /** `token` is that of gateway.yaml; empty for none. */
  constructor(token: string, holders: TokenHolders) {
    this.#expected = token === '' ? undefined : digest(token)
    this.#holders = holders
    this.#wrong = new WrongTokens(holders.wrongToken)
  }

  /**
   * Says whose token it is. Returns a promise only when it has to wait, as after wrong tokens of the address. `path` is
   * where it was presented.
   * @throws GatewayError when it is nobody's, or over
   */
  ownerOf(presented: string, address: string, path: string): Awaitable<Actor> {
    const waits = this.#wrong.wait(address)
    return waits ? waits.then(() => this.#compare(presented, address, path)) : this.#compare(presented, address, path)
  }

  #compare(presented: string, address: string, path: string): Actor {
    // Digests have the same length, so the time of the comparison does not even tell the length of the token.
    if (this.#expected && timingSafeEqual(digest(presented), this.#expected))
      return { kind: 'token', id: 'admin.token', address, ...everything }
    // Nobody guesses by tokens whose checksum is wrong, so these are not counted, and not looked up.
    if (presented.toLowerCase().startsWith(tokenPrefix) && !isWhole(presented))
      throw unauthenticated('mistyped', 'This token was mistyped, or a part of it is missing: its checksum is wrong.')
    const operator = isWhole(presented) ? this.#holders.find(presented) : undefined
    if (operator) {
      const { name, role, tenant } = operator
      return { kind: 'operator', id: name, address, role, tenant }
    }
    this.#wrong.note(address, path.slice(0, 100))
    throw unauthenticated('invalid', 'This is no admin token of this gateway.')
  }
}

/** The error for somebody who presented no token, or one that is no good. */
export function unauthenticated(how: 'missing' | 'invalid' | 'mistyped', message: string): GatewayError {
  return new GatewayError(how === 'missing' ? 'missing_api_key' : 'invalid_api_key', message, {
    shownCode: `${how}_admin_token`,
    headers: [['www-authenticate', 'Bearer realm="sluice admin"']]
  })
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
