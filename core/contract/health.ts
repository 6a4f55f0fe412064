// How a channel is doing, as the plugin that chooses channels tells operators.

/** A channel's health as operators see it. */
export interface ChannelHealth {
  readonly state: 'healthy' | 'cooling' | 'ejected' | 'probing'
  /** Unix milliseconds: when a cooling channel is used again, an ejected one probed. Null when healthy. */
  readonly until: number | null
  readonly consecutive_failures: number
  /** Attempts since the channel was configured as it is now. */
  readonly successes: number
  readonly failures: number
}
