// How long the database has answered this process without a failure, which others' leases are believed by.

/** For how many leases it must have, so that all others can have come back and renewed theirs. */
const leases = 1.5

/**
 * Leases end while the database is away, or while this process stands still, and their owners are as well as ever. So
 * nobody is taken for gone by a process that cannot tell: after an outage all come back one after another.
 */
export class Soundness {
  readonly #lease: number
  #since = performance.now()
  #lookedAt = performance.now()

  /** `lease`: of what is taken over, in milliseconds. */
  constructor(lease: number) {
    this.#lease = lease
  }

  /** Whether somebody whose lease has ended is gone. */
  get holds(): boolean {
    return performance.now() - this.#since > leases * this.#lease
  }

  /** The database did not answer, or with an error. */
  failed(): void {
    this.#since = performance.now()
  }

  /**
   * Asks the database something, as is to be done several times in a lease.
   * @throws what `ask` throws
   */
  async watch<T>(ask: () => Promise<T>): Promise<T> {
    const began = performance.now()
    // Who stood still cannot tell who else did.
    if (began - this.#lookedAt > this.#lease / 2) this.#since = began
    this.#lookedAt = began
    try {
      const answer = await ask()
      if (performance.now() - began > this.#lease / 3) this.failed()
      return answer
    } catch (error) {
      this.failed()
      throw error
    }
  }
}
