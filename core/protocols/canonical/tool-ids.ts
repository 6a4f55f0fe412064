// Ids of calls as an upstream allows them.

/** Two different ids stay different, and the same ids in the same order always become the same. */
export class ToolIds {
  readonly #illegal: RegExp
  readonly #legal = new Map<string, string>()
  readonly #taken = new Set<string>()

  /** `illegal`: every character that may not be in one, with the flag `g`. */
  constructor(illegal: RegExp) {
    this.#illegal = illegal
  }

  of(id: string): string {
    let legal = this.#legal.get(id)
    if (legal === undefined) {
      const base = id.replace(this.#illegal, '_')
      legal = base
      for (let more = 2; this.#taken.has(legal); more++) legal = `${base}_${more}`
      this.#taken.add(legal)
      this.#legal.set(id, legal)
    }
    return legal
  }
}
