// Slows down whoever tries tokens: after some wrong ones of an address each further one waits before it is looked at.
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import type { Logger } from '../telling/log.ts'

/** Wrong tokens of an address that cost it nothing: people mistype. */
const free = 3
/** Milliseconds that a token waits after those; twice as long after each further one, up to the most. */
const firstPause = 100
const longestPause = 2000
/** Tokens of an address that wait at a time: more are refused without being looked at. */
const mostWaiting = 8
/** Milliseconds without a wrong token after which an address is as good as any. */
const forgottenAfter = 300_000
/** Addresses that are remembered: whoever has more of them is not held up by their number. */
const mostAddresses = 1000

interface Suspect {
  wrong: number
  waiting: number
  /** Of the last wrong token, by `performance.now()`. */
  at: number
}

/** What is known of wrong tokens. One of each guard, in memory. */
export class WrongTokens {
  readonly #log: Logger
  readonly #suspects = new Map<string, Suspect>()

  constructor(log: Logger) {
    this.#log = log
  }

  /**
   * Resolves when a token of this address may be looked at, right or wrong; undefined: at once.
   * @throws GatewayError `rate_limit_rps` when too many of it wait
   */
  wait(address: string): Promise<void> | undefined {
    const suspect = this.#suspects.get(originOf(address))
    if (!suspect || performance.now() - suspect.at > forgottenAfter || suspect.wrong < free) return undefined
    if (suspect.waiting >= mostWaiting) {
      throw new GatewayError('rate_limit_rps', 'Too many wrong tokens came from this address. Try again later.', {
        retryAfterMs: longestPause
      })
    }
    suspect.waiting++
    const pause = Math.min(firstPause * 2 ** (suspect.wrong - free), longestPause)
    return sleep(pause, undefined, { ref: false }).finally(() => void suspect.waiting--)
  }

  /** A wrong token came. The log has the first, and then fewer and fewer. */
  note(address: string, path: string): void {
    const origin = originOf(address)
    const now = performance.now()
    let suspect = this.#suspects.get(origin)
    if (!suspect || now - suspect.at > forgottenAfter) suspect = { wrong: 0, waiting: suspect?.waiting ?? 0, at: now }
    suspect.wrong++
    suspect.at = now
    this.#suspects.delete(origin)
    this.#suspects.set(origin, suspect)
    if (this.#suspects.size > mostAddresses) this.#suspects.delete(this.#suspects.keys().next().value!)
    const { wrong } = suspect
    if (Number.isInteger(Math.log2(wrong)))
      this.#log.warn('a wrong admin token was presented', { address, path, wrong })
  }
}

/** Whoever has one IPv6 address has 2⁶⁴ of them, with the same beginning. */
function originOf(address: string): string {
  if (!address.includes(':') || address.startsWith('::ffff:')) return address
  const groups = address.split(':')
  const gap = groups.indexOf('')
  return groups.slice(0, gap === -1 ? 4 : Math.min(gap, 4)).join(':') || address
}
