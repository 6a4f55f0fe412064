// The head of the database: where its writer stands, and how the table head holds that.
import type { Database, Value } from './sqlite.ts'

/** Where the writer stands, as stored in the table head. */
export interface Head {
  boot: number
  /** The last batch committed in this boot. */
  batch: number
  /** The journal's last row. */
  seq: number
  hash: string
  /** The last batch, and the last journal row, that the balances include. */
  balancedBatch: number
  balancedSeq: number
  /** How many rows the tables request and key have. */
  requests: number
  keys: number
  /** Unix milliseconds: requests that arrived up to then may have no record any more. */
  unrecorded: number
  /**
   * Of the last start, see segment.ts, or of a backup, which has one of its own; empty in a file that no version with
   * histories has started.
   */
  history: string
  /** The commit log may have more than the database: both its files must be there. */
  open: boolean
  /** How many transactions there were. */
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
  'keys',
  'unrecorded',
  'history',
  'open',
  'writes'
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
  keys,
  unrecorded,
  history,
  open,
  writes
}: Head): Value[] {
  return [
    boot,
    batch,
    seq,
    Buffer.from(hash, 'hex'),
    balancedBatch,
    balancedSeq,
    requests,
    keys,
    unrecorded,
    Buffer.from(history, 'hex'),
    open ? 1 : 0,
    writes
  ]
}

/** The stored head, of an earlier schema too. */
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
    keys: Number(row['keys']),
    unrecorded: Number(row['unrecorded']),
    history: Buffer.from((row['history'] ?? Buffer.alloc(0)) as Uint8Array).toString('hex'),
    open: row['open'] === 1,
    writes: Number(row['writes'] ?? 0)
  }
}

/** What all copies of a store have in common: the history of its first start, in hexadecimal. Empty before that. */
export function identityOf(database: Database): string {
  return hexOf(database.prepare('SELECT history FROM boot ORDER BY boot_id LIMIT 1').get())
}

/**
 * The history that a backup is a copy of, up to the batch of its head; undefined of a store, which is in the history of
 * its last start.
 */
export function historyLeft(database: Database, { boot, history }: Head): string | undefined {
  const last = hexOf(database.prepare('SELECT history FROM boot WHERE boot_id = ?').get(boot))
  return history === last ? undefined : last
}

function hexOf(row: Record<string, Value> | undefined): string {
  return Buffer.from((row?.['history'] ?? Buffer.alloc(0)) as Uint8Array).toString('hex')
}
