// Limits retries, so that they do not multiply the load on upstreams that are already failing.
import type { Allowance } from '../../core/contract/contract.ts'
import { Window } from './window.ts'

/**
 * `ratio`: the share of a model's requests that may be retried. `perSecond`: retries per second that are always
 * allowed.
 */
export interface RetryAllowance {
  ratio: number
  perSecond: number
}

/** What is counted, in milliseconds. */
const span = 10_000

/** The retries of one model over the last ten seconds. */
export class RetryBudget {
  /** Requests, and the retries that are a share of them, which are marked: those of this thread. */
  readonly #calls = new Window()
  /** The retries that are allowed in addition: those of all threads. */
  readonly #more: Allowance
  readonly #later: (act: () => void) => void

  /** `later` does something when ten seconds have passed. */
  constructor(more: Allowance, later = (act: () => void): void => void setTimeout(act, span).unref()) {
    this.#more = more
    this.#later = later
  }

  request(now: number): void {
    this.#calls.add(now, false)
  }

  /** Takes one retry, if any is left. */
  take(now: number, { ratio, perSecond }: RetryAllowance): boolean {
    const retries = this.#calls.marked(now)
    const left = ratio * (this.#calls.all(now) - retries) - retries
    if (left > 0) {
      this.#calls.add(now, true)
      return true
    }
    // Requests may have left the window before the retries that were a share of them.
    if (!this.#more.take(1, Math.ceil(perSecond * 10 + left))) return false
    this.#later(() => this.#more.give(1))
    return true
  }
}
