// The interface of the request log, which has one record per exchange for operators.
import type { Usage } from '../money/usage.ts'

/** One attempt, as recorded. */
export interface AttemptRecord {
  channel: string
  status?: number | undefined
  error_code?: string | undefined
  first_byte_ms?: number | undefined
  duration_ms: number
}

/** One exchange. Never holds a body, a credential or a key's secret. Names are the public format of the admin API. */
export interface RequestRecord {
  request_id: string
  /** When the request arrived: RFC 3339, in UTC. */
  time: string
  tenant: string | null
  project: string | null
  member: string | null
  key: string | null
  /** The public name of the model used. */
  model: string | null
  /** The model that the client asked for, when a plugin replaced it. */
  requested_model: string | null
  endpoint: string
  client_protocol: string
  channel: string | null
  channel_protocol: string | null
  status: number
  error_code: string | null
  outcome: 'completed' | 'rejected' | 'failed' | 'aborted'
  streamed: boolean
  usage: Usage | null
  usage_source: 'upstream' | 'measured' | 'partial' | 'estimated' | 'recovered' | 'manual' | null
  cost_usd: string
  cost_nano: string
  /** The price that was applied to `usage`, and the amount that was held; null when nothing was charged. */
  price_version: string | null
  reserved_nano: string | null
  attempts: AttemptRecord[]
  first_byte_ms: number | null
  duration_ms: number
  /** The client's own X-Request-Id. */
  client_request_id: string | null
  /**
   * Members of the request that were left out for the channel of the last attempt, because its protocol cannot express
   * them. Absent when there are none.
   */
  dropped?: readonly string[]
}

/** A query of the log. All conditions hold together. */
export interface RequestQuery {
  request_id?: string
  tenant?: string
  key?: string
  model?: string
  /** RFC 3339; records of requests that arrived earlier are left out. */
  since?: string
  /** From 1 to 1000. */
  limit: number
  cursor?: string
}

/** The request log. */
export interface RequestLog {
  /**
   * Queues a record. It is written in the same transaction as a settlement queued in the same tick of the event loop. A
   * caller that already has the record's JSON, or its time in Unix milliseconds, passes them.
   */
  append(record: RequestRecord, json?: string, time?: number): void
  /** Lists records, newest first. `next` is the cursor of the next page; null on the last one. */
  list(query: RequestQuery): Promise<{ data: RequestRecord[]; next: string | null }>
}
