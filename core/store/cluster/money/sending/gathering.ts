// Holds that slices have admitted and that leave in one batch, until the database has them.

/** Those that were admitted until a batch left: one promise for all of them. */
export class Gathering {
  /** When the first of them was admitted, by performance.now(). */
  readonly since: number
  /** Resolves when all are in the database. Rejects when one of them is not for long, or never. */
  readonly durable: Promise<void>
  readonly #resolve: () => void
  readonly #reject: (error: Error) => void
  #waiting = 0
  #closed = false
  #broken = false

  constructor(since: number) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Nobody may wait for it.
    promise.catch(() => {})
    this.since = since
    this.durable = promise
    this.#resolve = resolve
    this.#reject = reject
  }

  /** Whether its promise was rejected: whoever comes after that must not belong to it. */
  get broken(): boolean {
    return this.#broken
  }

  /** One more belongs to it. */
  add(): void {
    this.#waiting++
  }

  /** No more will. */
  close(): void {
    this.#closed = true
    this.#check()
  }

  /** The database has one of them. */
  written(): void {
    this.#waiting--
    this.#check()
  }

  /** One of them cannot be written at present, or never. */
  failed(error: Error): void {
    this.#broken = true
    this.#reject(error)
  }

  #check(): void {
    if (this.#closed && this.#waiting === 0) this.#resolve()
  }
}
