// The interface of the request log, which has one record per exchange for operators.
import type { Reason, UpstreamSaid } from '../errors.ts'
import type { Usage } from '../money/usage.ts'

/** One attempt, as recorded. */
export interface AttemptRecord {
  channel: string
  /** The model that was asked, where several were asked one after another. */
  model?: string | undefined
  /** The name of the credential, for a channel that has several. */
  credential?: string | undefined
  /** The status of the upstream's answer. Absent when there was none. */
  status?: number | undefined
  error_code?: string | undefined
  /** What went wrong, where the upstream has not said it. */
  error?: string | undefined
  upstream_error?: UpstreamSaid | undefined
  /** False when the channel could not carry the request, which was therefore not sent. */
  sent?: false | undefined
  /** From its start to the head of the upstream's answer. Absent when there was none, and before 2026-11-23. */
  head_ms?: number | undefined
  /** From its start to the first byte of the answer's body, or the first frame. */
  first_byte_ms?: number | undefined
  duration_ms: number
  /** From the arrival of the request to its start. */
  at_ms?: number | undefined
}

/** A call of a plugin's hook. */
export interface HookRecord {
  plugin: string
  /** `onRequest` and the like, or `release`: what a plugin gives back at the end. */
  hook: string
  /** From the arrival of the request to its start. */
  at_ms: number
  duration_ms: number
}

/** Where the time of an exchange went, beside its attempts. */
export interface TimesRecord {
  /** From the arrival of the request to when its body was there and checked. Absent when none was read. */
  body_ms?: number
  /** All hooks of plugins together, as far as they had run when the record was made. */
  plugins_ms: number
  /** The calls that took a tenth of a millisecond or longer, in the order in which they ended; at most 16. */
  hooks?: readonly HookRecord[]
  /** How many such calls are not listed. */
  omitted?: number
  /** The plugin that refused the request, or failed. */
  refused_by?: string
  /** The plugin that answered in the place of an upstream. */
  answered_by?: string
}

/** A channel that may be asked, in the order in which channels are tried. */
export interface CandidateRecord {
  channel: string
  /** The lowest is tried first. It is the channel's priority, unless a plugin sorted the channels. */
  rank: number
  /** The share of the requests among channels of one rank. */
  weight: number
  /** Why it would have been passed over if there had been another. Absent for a channel that is well. */
  health?: WhyRecord
}

/** Why a channel was not asked. */
export interface WhyRecord {
  /**
   * `endpoint`, `model`, `protocol`, `reference`, `ejected`, `cooling`, `probing`, `spent`, `full`, `plugin`, or a
   * plugin's own word.
   */
  code: string
  reason: string
  /** RFC 3339. */
  until?: string
}

/** A channel that was not asked. */
export interface ExclusionRecord extends WhyRecord {
  channel: string
  /** The name of the credential, where not the channel was left out but one of its several credentials. */
  credential?: string
  /** The plugin that left it out, or `gateway`. */
  by: string
}

/** A model in whose place another one was asked. `code` is that of an error. */
export interface LeftModelRecord {
  model: string
  code: string
  reason: string
}

/** How the channel of an exchange was chosen. */
export interface DecisionRecord {
  order: CandidateRecord[]
  /** Those of the model's channels that were left out. Channels without the model are not listed. */
  excluded: ExclusionRecord[]
  /** Why no further channel was tried. */
  stopped?: string
  /** The models that might have answered before the last one that was asked, and why each did not. */
  models?: LeftModelRecord[]
  /** How many channels are not listed, because there are too many. */
  omitted?: number
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
  /** The public name of the model that answered, or was asked last. */
  model: string | null
  /** The model that the client asked for, when a plugin replaced it or another one stood in for it. */
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
  /** The price that was applied to `usage`; null when nothing was charged. */
  price_version: string | null
  /** The most that the exchange could cost, which was held; null when nothing was held. */
  reserved_nano: string | null
  attempts: AttemptRecord[]
  first_byte_ms: number | null
  duration_ms: number
  /** The client's own X-Request-Id. */
  client_request_id: string | null
  /**
   * True where others have written it, as the process of the exchange was gone. Absent in all other records, and in
   * those of before 2026-11-28.
   */
  recovered?: true
  /** Absent in records of before 2026-11-23. */
  times?: TimesRecord
  /**
   * Members of the request that were left out for the channel of the last attempt, because its protocol cannot express
   * them. Absent when there are none.
   */
  dropped?: readonly string[]
  /** The tags of the caller when the request arrived. Absent when there are none. */
  tags?: Readonly<Record<string, string>>
  /** Why the exchange, or a turn of the session, was refused. Absent when none was, and where the code says it all. */
  reason?: Reason
  /** How its channel was chosen. Absent when the first one was taken and none was left out. */
  decision?: DecisionRecord
  /** Who ran it from the playground, as the audit log names them. Absent for requests of clients. */
  playground?: { actor_kind: string; actor: string }
}

/** What a record is found and summed by, which can be read of one without reading all of it. */
export interface RecordGist extends Pick<
  RequestRecord,
  | 'project'
  | 'member'
  | 'endpoint'
  | 'channel'
  | 'status'
  | 'error_code'
  | 'outcome'
  | 'cost_nano'
  | 'first_byte_ms'
  | 'duration_ms'
  | 'tags'
> {
  readonly usage: Pick<Usage, 'input' | 'cached_input' | 'cache_write' | 'output'> | null
  readonly attempts: readonly Pick<AttemptRecord, 'channel'>[]
}

/** The least and the most, both included; an absent one does not limit. */
export interface Bounds<T> {
  readonly from?: T
  readonly to?: T
}

/** What records have as texts, to be selected or left out by. */
export interface RequestTexts {
  tenant?: string
  project?: string
  member?: string
  key?: string
  model?: string
  endpoint?: string
  /** A channel that was asked, whether it answered or not. */
  channel?: string
  code?: string
  outcome?: string
  /** The name of a tag, or `name=value`. */
  tag?: string
}

/** A query of the log. All conditions hold together. */
export interface RequestQuery extends RequestTexts {
  request_id?: string
  /** What is left out: records with any of these. */
  not?: RequestTexts & { status?: Bounds<number> }
  /** In Unix milliseconds. */
  time?: Bounds<number>
  status?: Bounds<number>
  /** In nano-dollars, as in `cost_nano`. */
  cost?: Bounds<string>
  /** In milliseconds. */
  duration?: Bounds<number>
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
  /**
   * Lists records, newest first. `next` is the cursor of the next page; null on the last one. `left`: aborted when
   * nobody wants them any more.
   */
  list(query: RequestQuery, left?: AbortSignal): Promise<{ data: RequestRecord[]; next: string | null }>
}

/** A record, and when it was written, in Unix milliseconds: with the settlement of its request, if that had a hold. */
export interface WrittenRecord {
  readonly record: RequestRecord
  readonly written: number
}

/** How many requests there were over time. Times are in Unix milliseconds. */
export interface RequestTotals {
  readonly from: number
  readonly to: number
  /** Milliseconds of each part. */
  readonly width: number
  /** What came before was not counted, because there is too much. Not above `from` when all was. */
  readonly counted: number
  /** `refused` have a status of 400 or more, and `failed` one of 500 or more. */
  readonly parts: readonly { at: number; requests: number; refused: number; failed: number }[]
}

/** The request log as operators read it. */
export interface RequestBook extends RequestLog {
  /** Finds a record; undefined when there is none of this id, or, with a tenant, when it is not of that one. */
  find(id: string, tenant?: string): Promise<WrittenRecord | undefined>
  /** Counts requests over time, in so many parts; `limit` and `cursor` of the query count for nothing. */
  totals(query: RequestQuery, parts: number, left?: AbortSignal): Promise<RequestTotals>
}
