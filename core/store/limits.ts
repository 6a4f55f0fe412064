// The interface of the limiter: requests per time, tokens per time, and concurrent requests.
import type { LimitSet } from '../catalogue/caller.ts'
import type { Level } from '../errors.ts'
import type { Awaitable } from '../awaitable.ts'

/** Which limit refused. */
export type LimitName = 'concurrency' | 'rps' | 'rpm' | 'tpm'

/**
 * What the limiter has to know of limits that are counted together. Sets that are decided at one time have one `home`:
 * a tenant or a channel.
 */
export type CountedSet = Pick<LimitSet, 'id' | 'home' | 'models' | 'rates'>

/** One limit's state after a decision, as the headers show it. */
export interface LimitState<S extends CountedSet = LimitSet> {
  /** The set that it belongs to. */
  set: S
  name: LimitName
  limit: number
  /** Whole units left, never negative. */
  remaining: number
  /** Milliseconds until the rate is unused again; 1000 for concurrency. */
  resetMs: number
}

/**
 * The decision over all limits in one step: either everything is taken, or nothing. `refusedBy` is the one that takes
 * longest to admit the request.
 */
export type Decision<S extends CountedSet = LimitSet> =
  | { admitted: true; states: readonly LimitState<S>[]; lease: Lease }
  | { admitted: false; states: readonly LimitState<S>[]; refusedBy: LimitState<S>; asked: number; retryAfterMs: number }

/** What an admitted request has taken. Its owner releases it once; a second call does nothing. */
export interface Lease {
  /**
   * Frees the concurrency slots, and corrects the token limits to the tokens really used; undefined keeps the reserved
   * tokens. What was admitted with `tokens` 0 has nothing to correct, whatever is told here. Nobody waits for it: where
   * another machine has the limits, it is told in time, and what it misses comes back to it by itself. Until then the
   * limiter keeps the slots, for as long as the process lives, and needs nobody to renew them.
   *
   * `unseen`: the client is shown the end only when money of it is settled, so it may be told together with that.
   */
  release(tokens: number | undefined, unseen?: boolean): void
}

/** A limit that applies to a caller, and what of it is left. Plain JSON; its numbers are requests or tokens. */
export interface LimitStanding {
  readonly by: 'limit'
  readonly level: Level
  readonly scope: string
  readonly limit_name: LimitName
  /** The pattern of the models that the limit is for; null for one of all models. */
  readonly models: string | null
  readonly limit: number
  readonly used: number
  readonly left: number
  /** RFC 3339: when all of it is free again, if nothing more is taken. Null for `concurrency`. */
  readonly resets_at: string | null
}

/** The limiter. That of one process returns values; one that is shared through Redis returns promises. */
export interface Limits {
  /**
   * Admits or refuses a request. With `tokens` 0 token limits are neither asked nor shown, and so are those of
   * concurrency with `within`, for what happens within a request that has its slots.
   * @throws GatewayError `limits_unavailable` when the limits are shared, cannot be asked, and nothing stands in
   */
  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within?: boolean): Awaitable<Decision<S>>
  /**
   * What {@link Limits.decide} would say, for a request that is only explained. Nothing is taken.
   * @throws GatewayError as {@link Limits.decide}
   */
  look<S extends CountedSet>(sets: readonly S[], tokens: number): Awaitable<Decision<S>>
}
