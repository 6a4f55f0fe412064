// Keeps things by their id, up to a limit.

const mostKept = 10_000

/** A full shelf drops its oldest thing. */
export class Shelf<T extends { readonly id: string }> {
  readonly #things = new Map<string, T>()

  keep(thing: T): void {
    if (this.#things.size >= mostKept) this.#things.delete(this.#things.keys().next().value!)
    this.#things.set(thing.id, thing)
  }

  find(id: string): T | undefined {
    return this.#things.get(id)
  }

  /** Returns whether it was there. */
  drop(id: string): boolean {
    return this.#things.delete(id)
  }

  /** The newest thing first. */
  all(): T[] {
    return [...this.#things.values()].reverse()
  }
}
