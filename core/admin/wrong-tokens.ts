// Slows down the guessing of tokens: after some wrong tokens from an address, each further token from it waits before
// it is checked.
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'

/** How many wrong tokens of an address have no consequence, because people mistype. */
const free = 3
/** How long the next token waits, in milliseconds. Each further wrong token doubles it, up to the longest pause. */
const firstPause = 100
const longestPause = 2000
/** How many tokens of an address may wait at a time. More are refused without a check. */
const mostWaiting = 8
/** After this many milliseconds without a wrong token, an address is forgotten. */
const forgottenAfter = 300_000
/** How many addresses are remembered. The one whose last wrong token is oldest is forgotten first. */
const mostAddresses = 1000

interface Suspect {
  wrong: number
  waiting: number
  /** The time of the last wrong token, by `performance.now()`. */
  at: number
}

/** Told of the first wrong token of an address, of the second, the fourth, the eighth, and so on. */
export type TellWrong = (address: string, path: string, times: number) => void

/** The wrong tokens of each address, in memory. Each guard has one. */
export class WrongTokens {
  readonly #tell: TellWrong
  readonly #suspects = new Map<string, Suspect>()

  constructor(tell: TellWrong) {
    this.#tell = tell
  }

  /**
   * Resolves when a token of this address may be checked; undefined when it may be checked at once.
   * @throws GatewayError `rate_limit_rps` when too many tokens of the address wait
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

  /** Records a wrong token, and tells of some. */
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
    if (Number.isInteger(Math.log2(wrong))) this.#tell(address, path, wrong)
  }
}

/**
 * The key of an address. For IPv6 it is the first 64 bits, because whoever has one address has all that begin with
 * them.
 */
export function originOf(address: string): string {
  if (!address.includes(':') || address.startsWith('::ffff:')) return address
  const groups = address.split(':')
  const gap = groups.indexOf('')
  return groups.slice(0, gap === -1 ? 4 : Math.min(gap, 4)).join(':') || address
}
