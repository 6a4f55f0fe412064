// A request that is explained to an operator, by the same hooks as a real one: nothing is sent, held, counted or kept.
import type { Counter } from '../money/classes.ts'

/** What an exchange has that is only explained. */
export interface Rehearsal {
  /** The SHA-256 of the key that the operator named. Undefined: the request's headers have a key. */
  readonly key: Buffer | undefined
}

/** What would be held for a request. Amounts are nano-dollars. */
export interface Quote {
  readonly amount: bigint
  readonly priceVersion: string
  readonly lines: readonly QuoteLine[]
  /** The output tokens that each answer would be limited to, because a budget has no more left. */
  readonly maxOutput: number | undefined
}

/** A part of the amount: the most units of a counter, at the price of the dearest class that they may be counted in. */
export interface QuoteLine {
  readonly counter: Counter
  readonly units: number
  readonly perMillion: bigint
}
