// The work that another gateway has taken from this one, while an exchange may still be at it here.

/** How much of it is remembered. */
const most = 10_000

/** What of the work that a gateway had is another's by now, or was ended by another. */
export class Losses {
  /** By name, the oldest first. */
  readonly #names = new Set<string>()

  has(name: string): boolean {
    return this.#names.has(name)
  }

  add(name: string): void {
    this.#names.add(name)
    if (this.#names.size > most) for (const oldest of this.#names) return void this.#names.delete(oldest)
  }

  /** The work has come back. */
  delete(name: string): void {
    this.#names.delete(name)
  }
}
