// The claims in the memory of this process.
import type { Claims } from '../claims.ts'

/** A claim, for the next process. */
export type KeptClaim = readonly [name: string, what: Buffer]

/** The claims of a process, and of those before it that still have some. */
export class MemoryClaims implements Claims {
  readonly #claims = new Map<string, Buffer>()

  take(name: string, what: Buffer): Buffer | undefined {
    const taken = this.#claims.get(name)
    if (!taken) this.#claims.set(name, what)
    return taken
  }

  look(name: string): Buffer | undefined {
    return this.#claims.get(name)
  }

  leave(name: string): void {
    this.#claims.delete(name)
  }

  /** All of them. */
  get all(): readonly KeptClaim[] {
    return [...this.#claims]
  }
}
