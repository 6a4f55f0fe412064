// The places of worker threads, as operators see them.

/** What a worker has to do. */
export interface WorkerLoad {
  /** Open connections of clients. */
  readonly connections: number
  /** Requests that have begun and are not settled. */
  readonly exchanges: number
  /** Open connections to upstreams. */
  readonly upstreamConnections: number
  /** The share of the last second, about, in which its event loop was at work: from 0 to 1. */
  readonly busy: number
}

/** A place among the workers. Times are in Unix milliseconds. */
export interface WorkerPlace {
  readonly number: number
  /** Whether one serves there now. */
  readonly serves: boolean
  /** Since when; undefined while none does. */
  readonly since: number | undefined
  /** Undefined when it did not answer in time. */
  readonly load: WorkerLoad | undefined
  /** How many have ended there. */
  readonly ends: number
  /** The latest of these ends. */
  readonly last: { readonly time: number; readonly reason: string } | undefined
}
