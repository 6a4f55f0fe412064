// Limits retries, so that they do not multiply the load on upstreams that are already failing.
import { Window } from './window.ts'

/**
 * `ratio`: the share of a model's requests that may be retried. `perSecond`: retries per second that are always
 * allowed.
 */
export interface RetryAllowance {
  ratio: number
  perSecond: number
}

/** The retries of one model over the last ten seconds. */
export class RetryBudget {
  /** All events are requests and retries; the marked ones are retries. */
  readonly #calls = new Window()

  request(now: number): void {
    this.#calls.add(now, false)
  }

  /** Takes one retry, if any is left. */
  take(now: number, { ratio, perSecond }: RetryAllowance): boolean {
    const retries = this.#calls.marked(now)
    const requests = this.#calls.all(now) - retries
    if (retries >= ratio * requests + perSecond * 10) return false
    this.#calls.add(now, true)
    return true
  }
}
