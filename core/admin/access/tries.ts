// Bounds how often an address may try to sign in by a token.
import { GatewayError } from '../../errors.ts'
import { originOf } from '../wrong-tokens.ts'

/** How many tries of an address may fail within a minute. */
const mostFailed = 5
const minute = 60_000
/** How many addresses are remembered. The one that tried last longest ago is forgotten first. */
const mostAddresses = 1000

/** The tries of one listener, in memory. */
export class Tries {
  /** When tries were made that failed or are not over yet, by `performance.now()`, the oldest first. */
  readonly #times = new Map<string, readonly number[]>()

  /**
   * Counts a try as failed, until the function that it returns says otherwise: so many tries at once are not more.
   * @throws GatewayError `rate_limit_rpm` when too many have failed
   */
  begin(address: string): () => void {
    const origin = originOf(address)
    const now = performance.now()
    const recent = (this.#times.get(origin) ?? []).filter((time) => now - time < minute)
    if (recent.length >= mostFailed)
      throw new GatewayError('rate_limit_rpm', `${mostFailed} sign-ins a minute may fail: wait, and try again.`, {
        shownCode: 'too_many_sign_ins',
        retryAfterMs: recent[0]! + minute - now
      })
    this.#times.delete(origin)
    this.#times.set(origin, [...recent, now])
    if (this.#times.size > mostAddresses) this.#times.delete(this.#times.keys().next().value!)
    return () => {
      const times = this.#times.get(origin) ?? []
      this.#times.set(
        origin,
        times.filter((time) => time !== now)
      )
    }
  }
}
