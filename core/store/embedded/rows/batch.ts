// The batch: the changes of one commit, as flat arrays of values instead of an object per row.
import { textOfRecord } from './record-text.ts'
import type { RecordRow } from './record-text.ts'
import type { RequestRecord } from '../../requests.ts'
import type { Value } from '../files/sqlite.ts'
import { isOpen } from '../../works.ts'
import type { Work } from '../../works.ts'

/** Changes that reach the disk together or not at all. They are applied in the order of the fields. */
export interface Batch {
  /**
   * Counts from 1 in each boot, without gaps, so that a batch that may already have been committed is recognised. The
   * batches of a recovery are in no log and have 0.
   */
  number: number
  /** Unix milliseconds; never earlier than in the batch before. */
  written: number
  /** For each new price: version, JSON. */
  prices: string[]
  /**
   * Whether the moves bring the balances on disk up to this batch. Without it there are no moves: the balances on disk
   * may lag behind the journal.
   */
  balanced: boolean
  /** For each balance that changed: scope, window, change of posted, change of pending. */
  moves: (string | bigint)[]
  /** For each budget that changed: limit, scope, window. */
  limits: (string | bigint | null)[]
  /** For each hold that made progress: the columns of {@link touchColumns}. */
  touched: Value[]
  /** For each new hold: the columns of {@link holdColumns}. It replaces a row with the same id. */
  opened: Value[]
  /** For each hold that was detached: until when it is kept (Unix milliseconds), id. */
  leased: number[]
  /** For each piece of work that changed or is to be deleted: the columns of {@link workColumns}. */
  works: Value[]
  /** The ids of holds that ended and whose row no new hold replaces. */
  closed: number[]
  /** For each journal row: the columns of {@link entryColumns}. */
  entries: Value[]
  /** For each request record: the columns of {@link requestColumns}. */
  records: Value[]
  /** For each document that changed or is to be deleted: the columns of {@link documentColumns}. */
  documents: Value[]
  /** For each entry of the audit log: the columns of {@link auditColumns}. */
  audit: Value[]
  /** For each answer that is kept: the columns of {@link answerColumns}. */
  answers: Value[]
  /** For each route that is kept or removed: the columns of {@link routeColumns}. */
  routes: Value[]
}

/** Columns that the journal got later. A row without one of them has the same hash as before there was the column. */
export const laterColumns = ['tags', 'cost', 'cost_price'] as const

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
  'ts_ms',
  ...laterColumns
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
  'ts_ms',
  'pieces',
  'tags',
  'cost_price'
] as const

/** Columns in {@link Batch.touched}. */
export const touchColumns = ['channel', 'cost_price', 'delivered_units', 'model', 'price_version', 'id'] as const

/** Columns of a record in {@link Batch.records}; the writer adds seq, written and crc. `json`: see record-text.ts. */
export const requestColumns = ['request_id', 'tenant', 'key', 'model', 'time', 'json'] as const

/**
 * The values of a record in the order of {@link requestColumns}. A caller that already has its time in Unix
 * milliseconds passes it.
 */
export function recordValues(
  record: RequestRecord,
  time = Date.parse(record.time)
): [string, string | null, string | null, string | null, number, string] {
  return [
    record.request_id,
    record.tenant ?? null,
    record.key ?? null,
    record.model ?? null,
    Number.isNaN(time) ? 0 : time,
    textOfRecord(record, time)
  ]
}

/** The row at an index of {@link Batch.records}, to read its record. */
export function recordRow(records: readonly Value[], at: number): RecordRow {
  return {
    request_id: records[at],
    tenant: records[at + 1],
    key: records[at + 2],
    model: records[at + 3],
    time: records[at + 4],
    json: records[at + 5]
  } as RecordRow
}

/** All columns of the table document but its checksum. A document without JSON is deleted. */
export const documentColumns = ['kind', 'id', 'json'] as const

/** Columns of an entry in {@link Batch.audit}; the writer adds seq and hash. */
export const auditColumns = ['time', 'json'] as const

/** Columns of the table answer in {@link Batch.answers}; the writer adds bytes. */
export const answerColumns = ['id', 'tenant', 'time', 'asked', 'status', 'type', 'headers', 'streamed', 'body'] as const

/** All columns of the table route. To remove a route, all but the first three are null. */
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

/** All columns of the table work. A row without JSON is deleted. */
export const workColumns = ['tenant', 'project', 'id', 'kind', 'open', 'created', 'expires', 'json'] as const

/** The values of a piece of work in the order of {@link workColumns}. */
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
    documents: [],
    audit: [],
    answers: [],
    routes: []
  }
}
