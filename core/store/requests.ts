// The request log: one record per exchange, as operators query it.
import type { Usage } from '../money/usage.ts'

/** One try at one channel, as recorded. */
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
  /** RFC 3339, UTC, of arrival. */
  time: string
  tenant: string | null
  project: string | null
  member: string | null
  key: string | null
  /** The public name used. */
  model: string | null
  /** What the client asked for, where a plugin put another model in its place. */
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
  /** Of the charge: which price was applied to `usage`, and what was held for it. Null without one. */
  price_version: string | null
  reserved_nano: string | null
  attempts: AttemptRecord[]
  first_byte_ms: number | null
  duration_ms: number
  /** The client's own X-Request-Id, as a label. */
  client_request_id: string | null
  /**
   * Members of the request that the last attempt's channel was not told, as its protocol has no words for them; absent
   * when there are none.
   */
  dropped?: readonly string[]
}

/** What a listing may ask for; all conditions hold together. */
export interface RequestQuery {
  request_id?: string
  tenant?: string
  key?: string
  model?: string
  /** RFC 3339. */
  since?: string
  /** 1 to 1000. */
  limit: number
  cursor?: string
}

/** The log. */
export interface RequestLog {
  /**
   * Queues a record; it is written in the same transaction as a settlement queued in the same turn of the loop.
   * `json` and `time`: the record's text, and its time in Unix milliseconds, from a caller that has them already.
   */
  append(record: RequestRecord, json?: string, time?: number): void
  /** Newest first. `next` is the cursor of the next page, null on the last. */
  list(query: RequestQuery): Promise<{ data: RequestRecord[]; next: string | null }>
}
