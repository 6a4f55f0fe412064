// Rates, token rates and slots of a key: the interface of the limiter.
import type { KeyLimits } from '../catalogue/caller.ts'

/** Which limit refused. */
export type LimitName = 'concurrency' | 'rps' | 'rpm' | 'tpm'

/** One limit's state after a decision, as the headers show it. */
export interface LimitState {
  name: LimitName
  limit: number
  /** Whole units left, never negative. */
  remaining: number
  /** Milliseconds until it is whole again (rates), or 1000 for slots. */
  resetMs: number
}

/** All limits decided in one step: everything is taken, or nothing. */
export type Decision =
  | { admitted: true; states: readonly LimitState[]; lease: Lease }
  | { admitted: false; states: readonly LimitState[]; refusedBy: LimitName; retryAfterMs: number }

/** What an admitted request holds. Given back exactly once, by its owner; a second call does nothing. */
export interface Lease {
  /**
   * Frees the slot and corrects the token limit to what was really used (undefined: nothing is known, keep the
   * reservation).
   */
  release(tokens: number | undefined): void
}

/** The limiter. A value or a promise: the embedded one decides at once, a shared one asks Redis. */
export interface Limits {
  /** `tokens` 0: the request has none, and its token limit is neither asked nor shown. */
  decide(key: string, limits: KeyLimits, tokens: number): Decision | Promise<Decision>
}
