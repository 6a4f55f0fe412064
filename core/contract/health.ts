// How a channel is doing, as the plugin that chooses channels tells operators.

/** A channel's health as operators see it. */
export interface ChannelHealth {
  readonly state: 'healthy' | 'cooling' | 'ejected' | 'probing'
  /**
   * The time in Unix milliseconds when a cooling channel is used again, or an ejected one is probed. Null when healthy.
   */
  readonly until: number | null
  /** The time in Unix milliseconds since when it is not healthy. Null when healthy; absent when nobody says. */
  readonly since?: number | null
  /** Why it is not healthy: a sentence without a full stop. Null when healthy. */
  readonly reason: string | null
  readonly consecutive_failures: number
  /** Counts of attempts since the channel was last configured. */
  readonly successes: number
  readonly failures: number
  /** Attempts that were judged in the last five minutes, as far as they are remembered. */
  readonly recent: number
  /** The share of them that failed because of the upstream, from 0 to 1; null when there were none. */
  readonly error_rate: number | null
  /** Milliseconds from an attempt's start to the first event or byte of its answer; null when none came. */
  readonly first_event_ms: { readonly p50: number; readonly p95: number } | null
  /** Output tokens a second of streams, from the first event to the end; null when none were counted. */
  readonly tokens_per_second: number | null
}
