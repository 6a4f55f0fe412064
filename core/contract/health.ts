// How a channel is doing, as the plugin that chooses channels tells operators.

/** A channel's health as operators see it. */
export interface ChannelHealth {
  readonly state: 'healthy' | 'cooling' | 'ejected' | 'probing'
  /**
   * The time in Unix milliseconds when a cooling channel is used again, or an ejected one is probed. Null when healthy.
   */
  readonly until: number | null
  /** Why it is not healthy: a sentence without a full stop. Null when healthy. */
  readonly reason: string | null
  readonly consecutive_failures: number
  /** Counts of attempts since the channel was last configured. */
  readonly successes: number
  readonly failures: number
}
