// How long the database has answered this process without a failure, and its clock has run evenly: which others' leases
// are believed by.

/** For how many leases it must have, so that all others can have come back and renewed theirs. */
const leases = 1.5
/** By what part of a lease the clock may move, as one that is set right does. All that is renewed has more left. */
const tolerance = 1 / 6
/** No lease lasts for as long, in milliseconds: what ends later was written before the clock was set back. */
const tooLong = 3_600_000

/** Who has what a lease is of is gone when it ends by `by`, or beyond `beyond`: each the text of a timestamp. */
export interface Gone {
  readonly by: string
  readonly beyond: string
}

const nobody: Gone = { by: '-infinity', beyond: 'infinity' }

/**
 * Leases end while the database is away, while its clock is set ahead, or while this process stands still, and their
 * owners are as well as ever. So nobody is taken for gone by a process that cannot tell: after an outage all come back
 * one after another. And a lease ends when the time for it has passed here, whatever the clock is set to meanwhile.
 */
export class Soundness {
  readonly #lease: number
  #since = performance.now()
  #lookedAt = performance.now()
  /** How far the clock of the database is ahead of `performance.now()`: at least and at most. */
  #ahead: { readonly least: number; readonly most: number } | undefined

  /** `lease`: of what is taken over, in milliseconds. */
  constructor(lease: number) {
    this.#lease = lease
  }

  /** Whether somebody whose lease has ended is gone. */
  get holds(): boolean {
    return this.#ahead !== undefined && performance.now() - this.#since > leases * this.#lease
  }

  /** Whose leases have ended, by the clock of the database. */
  get gone(): Gone {
    if (!this.#ahead || !this.holds) return nobody
    const now = performance.now() + this.#ahead.least
    return { by: new Date(now).toISOString(), beyond: new Date(now + tooLong).toISOString() }
  }

  /** The database did not answer, or with an error. */
  failed(): void {
    this.#since = performance.now()
  }

  /** What time it was by the database, in Unix milliseconds, when it was asked between `began` and now. */
  saw(time: number, began: number): void {
    const [before, ahead] = [this.#ahead, { least: time - performance.now(), most: time - began }]
    const even = tolerance * this.#lease
    if (before && (ahead.least > before.most + even || ahead.most < before.least - even)) this.failed()
    this.#ahead = ahead
  }

  /**
   * Asks the database something, and what time it is ({@link saw}), as is to be done several times in a lease.
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
