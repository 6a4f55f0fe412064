// Which channel is asked once more when there is no other left, and after how long.
import type { AttemptFailure, Channel } from '../../core/contract/contract.ts'

/**
 * Failures that may be over in a moment: the upstream was there and did not do what it does. One that was silent would
 * be silent again, for as long.
 */
const passing: ReadonlySet<string> = new Set([
  'upstream_rate_limited',
  'upstream_bad_response',
  'upstream_connection_failed',
  'upstream_stream_interrupted'
])
/**
 * Where the upstream does not say how long to wait: so many milliseconds, and up to as many again, so that not all come
 * back at once.
 */
const pauseMs = 200
/** A client is not kept waiting for longer: it is told when to come back instead. */
const longestWaitMs = 5_500

/**
 * The channel that is the first to be back, with the milliseconds until then; undefined when none may be asked again.
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
