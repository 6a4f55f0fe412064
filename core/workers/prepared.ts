// The change that a worker has prepared: the latest one that it was asked for, and none that was given up.

/** What a worker makes for a change, between the two steps of it. */
export class Prepared<T> {
  readonly #dispose: (made: T) => Promise<void>
  /** Counts what was asked for and given up, so that what ends late is known. */
  #latest = 0
  #made: { readonly value: T } | undefined

  /** `dispose` undoes what was made and is not used. */
  constructor(dispose: (made: T) => Promise<void>) {
    this.#dispose = dispose
  }

  /**
   * Prepares a change in the place of the one before.
   * @throws Error as `make`, or when the change was given up before it ended: then what it made is disposed of
   */
  async prepare(make: () => Promise<T>): Promise<void> {
    const number = ++this.#latest
    await this.#clear()
    const value = await make()
    if (number === this.#latest) {
      this.#made = { value }
      return
    }
    await this.#dispose(value)
    throw new Error('the change was given up while it was prepared')
  }

  /**
   * What was prepared, which is the caller's from now on.
   * @throws Error when nothing is
   */
  take(): T {
    const made = this.#made
    if (!made) throw new Error('no change was prepared')
    this.#made = undefined
    return made.value
  }

  /** Gives up what was prepared, and what is being prepared. */
  async drop(): Promise<void> {
    this.#latest++
    await this.#clear()
  }

  async #clear(): Promise<void> {
    const made = this.#made
    this.#made = undefined
    if (made) await this.#dispose(made.value)
  }
}
