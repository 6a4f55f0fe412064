// Keeps retries from multiplying the load on upstreams that are failing already.
import { Window } from './window.ts'

/** What share of a model's requests may be retried, and how many a second in any case. */
export interface RetryAllowance {
  ratio: number
  perSecond: number
}

/** The retries of one model over the last ten seconds; both counts are forgotten as they age. */
export class RetryBudget {
  /** Marked: retries. All: requests and retries. */
  readonly #calls = new Window()

  request(now: number): void {
    this.#calls.add(now, false)
  }

  /** Takes one retry, when there is one. */
  take(now: number, { ratio, perSecond }: RetryAllowance): boolean {
    const retries = this.#calls.marked(now)
    const requests = this.#calls.all(now) - retries
    if (retries >= ratio * requests + perSecond * 10) return false
    this.#calls.add(now, true)
    return true
  }
}
