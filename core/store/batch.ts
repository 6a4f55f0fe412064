// One commit's worth of changes, in a flat form: arrays of values, not objects per row.
import type { RequestRecord } from './requests.ts'
import type { Value } from './sqlite.ts'
import { isOpen } from './works.ts'
import type { Work } from './works.ts'

/** A unit of durability: all of it is on disk, or none. Applied in the order of the fields. */
export interface Batch {
  /**
   * From 1 within a boot, without gaps: a batch that may have been committed is recognised by it. Those of a recovery,
   * which are in no log, have 0.
   */
  number: number
  /** Unix milliseconds, never less than those of an earlier batch. */
  written: number
  /** Per new price: version, JSON. */
  prices: string[]
  /** The moves bring the balances up to this batch. Otherwise there are none: balances may lag behind the journal. */
  balanced: boolean
  /** Per balance that changed: scope, window, change of posted, change of pending. */
  moves: (string | bigint)[]
  /** Per budget that changed: limit, scope, window. */
  limits: (string | bigint | null)[]
  /** Per hold that went on: channel, delivered units, id. */
  touched: Value[]
  /** Per hold: the columns of {@link holdColumns}; it replaces a row that has its id. */
  opened: Value[]
  /** Per hold that was detached: until when it is kept (Unix milliseconds), id. */
  leased: number[]
  /** Per piece of work that was put or is to be forgotten: the columns of {@link workColumns}. */
  works: Value[]
  /** Ids of holds that ended and were not replaced. */
  closed: number[]
  /** Per journal row: the columns of {@link entryColumns}. */
  entries: Value[]
  /** Per request record: the columns of {@link recordColumns}. */
  records: Value[]
  /** Per key that was made or revoked: the columns of {@link keyColumns}. */
  keys: Value[]
  /** Per answer that is kept: the columns of {@link answerColumns}. */
  answers: Value[]
  /** Per route that is kept or removed: the columns of {@link routeColumns}. */
  routes: Value[]
}

/** Columns of an entry in {@link Batch.entries}; the writer adds seq, boot_id, prev_hash and hash. */
export const entryColumns = [
  'kind',
  'request_id',
  'part',
  'class',
  'scopes',
  'amount',
  'reserved',
  'usage_json',
  'model',
  'channel',
  'price_version',
  'source',
  'ts_ms'
] as const

/** Columns of a hold in {@link Batch.opened}; the writer adds boot_id. */
export const holdColumns = [
  'id',
  'request_id',
  'part',
  'scopes',
  'amount',
  'model',
  'price_version',
  'input_units',
  'max_out',
  'dispatched',
  'channel',
  'delivered_units',
  'endpoint',
  'client_protocol',
  'streamed',
  'ts_ms'
] as const

/** Columns of a record in {@link Batch.records}; the writer adds seq and written. */
export const recordColumns = ['request_id', 'tenant', 'key', 'model', 'time', 'json'] as const

/**
 * A record in the order of {@link recordColumns}; `json` and `time`, Unix milliseconds, from a caller that has them
 * already.
 */
export function recordValues(
  record: RequestRecord,
  json = JSON.stringify(record),
  time = Date.parse(record.time)
): [string, string | null, string | null, string | null, number, string] {
  return [
    record.request_id,
    record.tenant ?? null,
    record.key ?? null,
    record.model ?? null,
    Number.isNaN(time) ? 0 : time,
    json
  ]
}

/** Columns of the table key, all of them. */
export const keyColumns = [
  'name',
  'sha256',
  'hint',
  'tenant',
  'project',
  'member',
  'models',
  'endpoints',
  'limits',
  'budget_limit',
  'budget_per',
  'expires',
  'created',
  'revoked'
] as const

/** Columns of the table answer in {@link Batch.answers}; the writer adds bytes. */
export const answerColumns = ['id', 'tenant', 'time', 'asked', 'status', 'type', 'headers', 'streamed', 'body'] as const

/** Columns of the table route, all of them; all but the first three are null where it is removed. */
export const routeColumns = [
  'tenant',
  'project',
  'id',
  'kind',
  'channel',
  'account',
  'model',
  'tokens',
  'expires'
] as const

/** Columns of the table work, all of them; without JSON the row goes. */
export const workColumns = ['tenant', 'project', 'id', 'kind', 'open', 'created', 'expires', 'json'] as const

/** Work in the order of {@link workColumns}. */
export function workValues(work: Work, json: string | null): Value[] {
  return [work.tenant, work.project, work.id, work.kind, isOpen(work) ? 1 : 0, work.created, work.expires, json]
}

/** A batch without changes. */
export function emptyBatch(number: number, written: number): Batch {
  return {
    number,
    written,
    prices: [],
    balanced: false,
    moves: [],
    limits: [],
    opened: [],
    touched: [],
    leased: [],
    works: [],
    closed: [],
    entries: [],
    records: [],
    keys: [],
    answers: [],
    routes: []
  }
}
