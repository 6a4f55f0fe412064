// Chooses a channel to be asked again when no other is left, and the pause before that.
import type { AttemptFailure, Channel } from '../../core/contract/contract.ts'

/**
 * Failures that may be over in a moment: the upstream was reached but did not answer properly. An upstream that was
 * silent would probably be silent again, for as long.
 */
const passing: ReadonlySet<string> = new Set([
  'upstream_rate_limited',
  'upstream_bad_response',
  'upstream_connection_failed',
  'upstream_stream_interrupted'
])
/**
 * The pause in milliseconds when the upstream does not say how long to wait. Up to as much again is added at random, so
 * that not all requests come back at once.
 */
const pauseMs = 200
/** The longest pause that a client is kept waiting for. With a longer one, the client is told when to come back. */
const longestWaitMs = 5_500

/**
 * The channel that can be asked again first, with the milliseconds until then; undefined when none may be asked again.
 */
export function soonest(
  failures: readonly AttemptFailure[],
  now: number,
  random: () => number
): { channel: Channel; ms: number } | undefined {
  let best: { channel: Channel; ms: number } | undefined
  for (const { attempt, error } of failures) {
    if (!passing.has(error.code)) continue
    const { channel, endedAt = now } = attempt
    const ms = endedAt + (error.details.retryAfterMs ?? 0) + pauseMs * (1 + random()) - now
    if (ms <= longestWaitMs && ms < (best?.ms ?? Infinity)) best = { channel, ms: Math.max(0, ms) }
  }
  return best
}
