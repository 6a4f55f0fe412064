// How a channel is doing, as the plugin that chooses channels tells operators.

/** What is left of one limit of a channel or of a credential. Its numbers are requests or tokens. */
export interface LimitLeft {
  /** `rpm`, `tpm` and `concurrency` of the file; `requests`, `input tokens` and the like as the upstream told. */
  readonly name: string
  /** What it limits. */
  readonly of: 'requests' | 'tokens' | 'concurrency'
  /** Who says so: the file, or the upstream in the heads of its answers. */
  readonly by: 'file' | 'upstream'
  /** The pattern or the upstream's name of the models that it is for; null for all. */
  readonly models: string | null
  /** Null when it was not told. */
  readonly limit: number | null
  readonly left: number
  /** The time in Unix milliseconds when all of it is free again, if nothing more is taken. Null when nobody knows. */
  readonly resets: number | null
}

/** One of the credentials of a channel, as operators see it. */
export interface CredentialHealth {
  readonly name: string
  readonly weight: number
  /** `cooling`: it rests, as the upstream asked. `ejected`: the upstream refuses it. */
  readonly state: ChannelHealth['state']
  readonly until: number | null
  readonly since: number | null
  readonly reason: string | null
  readonly successes: number
  readonly failures: number
  readonly limits: readonly LimitLeft[]
}

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
  /** What is left of its limits: those of the file, and of a channel with one credential those that are told. */
  readonly limits?: readonly LimitLeft[]
  /** In the order of the file; absent for a channel with one credential. */
  readonly credentials?: readonly CredentialHealth[]
}
