// Client secrets in the memory of this process. They live for minutes, and after a restart pages just request new ones.
import type { KeptSecret, Secrets } from '../secrets.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'

/** How many client secrets one key may have at a time, so that no key fills the memory. */
const mostPerKey = 1000
/** How often expired secrets are removed, in milliseconds. */
const sweepMs = 60_000

/** The client secrets that have not expired. */
export class MemorySecrets implements Secrets {
  readonly #secrets = new Map<string, KeptSecret>()
  /** How many secrets each key has. */
  readonly #counts = new Map<string, number>()
  readonly #now: () => number
  #sweptAt: number

  constructor(now: () => number = steadyNow) {
    this.#now = now
    this.#sweptAt = now()
  }

  put(secret: KeptSecret): boolean {
    const issuer = nameOf(secret.issuer)
    if (this.#now() - this.#sweptAt > sweepMs || this.#countOf(issuer) >= mostPerKey) this.#sweep()
    const name = nameOf(secret.sha256)
    const before = this.#secrets.get(name)
    // One that is kept again has its place already.
    if (!before || nameOf(before.issuer) !== issuer) {
      if (this.#countOf(issuer) >= mostPerKey) return false
      this.#count(issuer)
    }
    this.#secrets.set(name, secret)
    return true
  }

  /** All of them, for the next process. */
  get all(): readonly KeptSecret[] {
    return [...this.#secrets.values()]
  }

  find(sha256: Buffer): KeptSecret | undefined {
    const secret = this.#secrets.get(nameOf(sha256))
    return secret && secret.expires > this.#now() ? secret : undefined
  }

  #countOf(issuer: string): number {
    return this.#counts.get(issuer) ?? 0
  }

  /** Removes expired secrets, and counts what is left. */
  #sweep(): void {
    this.#sweptAt = this.#now()
    this.#counts.clear()
    for (const [name, { expires, issuer }] of this.#secrets) {
      if (expires > this.#sweptAt) this.#count(nameOf(issuer))
      else this.#secrets.delete(name)
    }
  }

  #count(issuer: string): void {
    this.#counts.set(issuer, this.#countOf(issuer) + 1)
  }
}

function nameOf(sha256: Buffer): string {
  return sha256.toString('latin1')
}
