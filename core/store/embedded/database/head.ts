// The head of the database: how far its writer has come, and how the table head stores that.
import type { Database, Value } from '../files/sqlite.ts'

/** How far the writer has come. There is one row of it. */
export interface Head {
  boot: number
  /** The last batch committed in this boot. */
  batch: number
  /** The last row of the journal, and its hash in hexadecimal. */
  seq: number
  hash: string
  /** The last batch, and the last journal row, that the balances on disk include. */
  balancedBatch: number
  balancedSeq: number
  /** How many rows the tables request and document have. */
  requests: number
  documents: number
  /** The last row of the audit log, and its hash in hexadecimal. */
  audits: number
  auditHash: string
  /** Unix milliseconds. Records of requests that arrived up to then may have been deleted. */
  unrecorded: number
  /**
   * The history of the last start (see segment.ts), in hexadecimal. A backup has one of its own. Empty before the first
   * start.
   */
  history: string
  /** Whether the commit log may have batches that the database lacks. Both its files must be there then. */
  open: boolean
  /** How many transactions were committed. */
  writes: number
}

/** Columns of the table head that its checksum covers, in this order. */
export const headColumns = [
  'boot_id',
  'batch',
  'seq',
  'hash',
  'balanced_batch',
  'balanced_seq',
  'requests',
  'documents',
  'unrecorded',
  'history',
  'open',
  'writes',
  'audits',
  'audit_hash'
] as const

/** The columns of a head in the order of {@link headColumns}. */
export function headValues({
  boot,
  batch,
  seq,
  hash,
  balancedBatch,
  balancedSeq,
  requests,
  documents,
  unrecorded,
  history,
  open,
  writes,
  audits,
  auditHash
}: Head): Value[] {
  return [
    boot,
    batch,
    seq,
    Buffer.from(hash, 'hex'),
    balancedBatch,
    balancedSeq,
    requests,
    documents,
    unrecorded,
    Buffer.from(history, 'hex'),
    open ? 1 : 0,
    writes,
    audits,
    Buffer.from(auditHash, 'hex')
  ]
}

/** Reads the stored head. It also reads one of an earlier schema. */
export function readHead(database: Database): Head {
  const row = database.prepare('SELECT * FROM head').get()!
  return {
    boot: Number(row['boot_id']),
    batch: Number(row['batch']),
    seq: Number(row['seq']),
    hash: Buffer.from(row['hash'] as Uint8Array).toString('hex'),
    balancedBatch: Number(row['balanced_batch']),
    balancedSeq: Number(row['balanced_seq']),
    requests: Number(row['requests']),
    documents: Number(row['documents'] ?? row['keys']),
    unrecorded: Number(row['unrecorded']),
    history: hex(row['history']),
    open: row['open'] === 1,
    writes: Number(row['writes'] ?? 0),
    audits: Number(row['audits'] ?? 0),
    auditHash: hex(row['audit_hash'])
  }
}

/** The id that all copies of a store share: the history of its first start, in hexadecimal. Empty before that. */
export function identityOf(database: Database): string {
  return hexOf(database.prepare('SELECT history FROM boot ORDER BY boot_id LIMIT 1').get())
}

/**
 * The history that a backup was copied from, at the batch of its head. Undefined for a store that is still in the
 * history of its last start.
 */
export function historyLeft(database: Database, { boot, history }: Head): string | undefined {
  const last = hexOf(database.prepare('SELECT history FROM boot WHERE boot_id = ?').get(boot))
  return history === last ? undefined : last
}

function hexOf(row: Record<string, Value> | undefined): string {
  return hex(row?.['history'])
}

function hex(value: Value | undefined): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : ''
}
