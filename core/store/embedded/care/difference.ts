// Says what one store has that another one lacks, for `sluice ledger restore`.
import { auditColumns, documentColumns, entryColumns, requestColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { readHead } from '../database/head.ts'
import type { Head } from '../database/head.ts'
import { auditHash, entryHash } from '../journal/journal.ts'
import { LedgerFile } from './ledger-file.ts'
import type { Reached } from './tell.ts'
import { batchesOf } from '../recovery/replay.ts'
import { volumeFolder } from '../journal/volume.ts'
import { hasJournal } from '../segments/folder.ts'
import { framesBehind } from '../segments/frames.ts'
import { surveyJournal } from '../segments/journal-survey.ts'
import { openForReading, readRows } from '../files/sqlite.ts'
import type { Database, Value } from '../files/sqlite.ts'
import { idIn } from '../rows/uuid.ts'
import { surveyLog } from '../recovery/survey.ts'

/** What a store has behind the point up to which both are the same. */
export interface Difference {
  /** Requests with a record in the request log. */
  requests: number
  /** Entries of the journal, and of these the charges and their sum in nano-dollars. */
  entries: number
  charges: number
  amount: bigint
  /** Tasks that the other does not know. */
  tasks: number
  /** By kind: how many documents are others in this store, or are missing in one of the two. */
  documents: Readonly<Record<string, number>>
  /** Entries of the audit log. */
  audits: number
  /** When the latest of all these was, in Unix milliseconds; null when there are none. */
  newest: number | null
}

/**
 * Compares two stores, whose files nobody may be writing to for an exact result. `reached` is told of the entries of
 * the journal that only `file` has.
 * @throws Error when one of them cannot be read
 */
export function differenceOf(file: string, other: string, reached: Reached = () => {}): Difference {
  const [own, theirs] = [new Contents(file), new Contents(other)]
  try {
    return compare(own, theirs, reached)
  } finally {
    own.close()
    theirs.close()
  }
}

function compare(own: Contents, theirs: Contents, reached: Reached): Difference {
  const found = { requests: 0, entries: 0, charges: 0, amount: 0n, tasks: 0, audits: 0 }
  let newest: number | null = null
  const see = (time: number): void => {
    if (time > (newest ?? 0)) newest = time
  }
  for (const { kind, amount, time } of own.entriesAfter(common(own.hashes, theirs.hashes), reached)) {
    found.entries++
    if (kind === 'settle') {
      found.charges++
      found.amount += amount
    }
    see(time)
  }
  for (const time of own.recordsAfter(common(own.records, theirs.records))) {
    found.requests++
    see(time)
  }
  for (const time of own.auditsAfter(common(own.audits, theirs.audits))) {
    found.audits++
    see(time)
  }
  const known = theirs.tasks()
  for (const task of own.tasks()) if (!known.has(task)) found.tasks++
  return { ...found, documents: changed(own.documents(), theirs.documents()), newest }
}

/** What only grows, and whose oldest rows may go. */
interface Sequence {
  /** The number of the last row; they count from 1. */
  length: number
  /** The id of a row; undefined when it is gone. */
  at(number: number): string | undefined
}

/** Up to which row two sequences are the same. Behind the first row that differs all others do. */
function common(one: Sequence, other: Sequence): number {
  const same = (number: number): boolean => {
    const [own, theirs] = [one.at(number), other.at(number)]
    return own === undefined || theirs === undefined || own === theirs
  }
  let [low, high] = [0, Math.min(one.length, other.length)]
  if (high === 0 || same(high)) return high
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (same(middle)) low = middle
    else high = middle
  }
  return low
}

function changed(own: ReadonlyMap<string, string>, theirs: ReadonlyMap<string, string>): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of new Set([...own.keys(), ...theirs.keys()])) {
    if (own.get(name) === theirs.get(name)) continue
    const kind = name.slice(0, name.indexOf(' '))
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}

interface LogEntry {
  kind: string
  amount: bigint
  time: number
  hash: string
}

/** The batches that the database lacks. */
function inLog(file: string, { history, batch: after, open }: Head): Batch[] {
  const log = surveyLog(file, history, after)
  return open ? [...batchesOf({ history, after, log })] : []
}

function inSegments(file: string, { batch: after }: Head): Batch[] {
  return [...framesBehind(surveyJournal(volumeFolder(file)), after)].map(({ batch }) => batch)
}

/** What a store has, in its database and in its log. */
class Contents {
  readonly #database: Database
  readonly #ledger: LedgerFile
  /** What only the commit log has. The entries of a journal in segments are with the others. */
  readonly #entries: LogEntry[] = []
  readonly #audits: string[] = []
  readonly #batches: readonly Batch[]
  readonly #seq: number

  constructor(file: string) {
    this.#database = openForReading(file)
    this.#ledger = new LedgerFile(file)
    const head = readHead(this.#database)
    this.#seq = this.#ledger.last
    const segmented = hasJournal(volumeFolder(file))
    this.#batches = segmented ? inSegments(file, head) : inLog(file, head)
    let { hash, auditHash: audited } = head
    const column = (name: (typeof entryColumns)[number]): number => entryColumns.indexOf(name)
    for (const { entries, audit } of this.#batches) {
      for (let at = 0; !segmented && at < entries.length; at += entryColumns.length) {
        const seq = head.seq + this.#entries.length + 1
        hash = entryHash(hash, seq, head.boot, entries, at)
        this.#entries.push({
          kind: entries[at + column('kind')] as string,
          amount: BigInt(entries[at + column('amount')] as bigint),
          time: Number(entries[at + column('ts_ms')]),
          hash
        })
      }
      for (let at = 0; at < audit.length; at += auditColumns.length) {
        audited = auditHash(audited, head.audits + this.#audits.length + 1, Number(audit[at]), String(audit[at + 1]))
        this.#audits.push(audited)
      }
    }
  }

  /** The journal by its hashes. */
  get hashes(): Sequence {
    return {
      length: this.#seq + this.#entries.length,
      at: (number) => (number > this.#seq ? this.#entries[number - this.#seq - 1]?.hash : this.#ledger.hashAt(number))
    }
  }

  *entriesAfter(seq: number, reached: Reached): Generator<Pick<LogEntry, 'kind' | 'amount' | 'time'>> {
    yield* this.#ledger.entries({ after: seq }, reached)
    yield* this.#entries.slice(Math.max(0, seq - this.#seq))
  }

  /** The request log by its ids. Old records go, and leave the numbers of the others. */
  get records(): Sequence {
    const logged = this.#batches.flatMap(({ records }) => column(records, requestColumns, 'request_id'))
    return this.#sequence('request', 'request_id', logged)
  }

  *recordsAfter(seq: number): Generator<number> {
    yield* this.#after('request', seq, (batch) => column(batch.records, requestColumns, 'time'))
  }

  /** The audit log by its hashes. */
  get audits(): Sequence {
    return this.#sequence('audit', 'lower(hex(hash))', this.#audits)
  }

  *auditsAfter(seq: number): Generator<number> {
    yield* this.#after('audit', seq, (batch) => column(batch.audit, auditColumns, 'time'))
  }

  /** The ids of all tasks. */
  tasks(): Set<string> {
    const ids = new Set<string>()
    for (const { tenant, project, id } of readRows(this.#database, 'SELECT tenant, project, id FROM work'))
      ids.add(JSON.stringify([tenant, project, id]))
    return ids
  }

  /** The JSON of each document by its kind and id. */
  documents(): Map<string, string> {
    const all = new Map<string, string>()
    for (const { kind, id, json } of readRows(this.#database, 'SELECT kind, id, json FROM document'))
      all.set(`${kind} ${id}`, String(json))
    for (const { documents } of this.#batches) {
      for (let at = 0; at < documents.length; at += documentColumns.length) {
        const [kind, id, json] = documents.slice(at, at + documentColumns.length)
        if (json === null) all.delete(`${kind} ${id}`)
        else all.set(`${kind} ${id}`, String(json))
      }
    }
    return all
  }

  close(): void {
    this.#ledger.close()
    this.#database.close()
  }

  #sequence(table: 'request' | 'audit', id: string, logged: readonly unknown[]): Sequence {
    const last = Number([...readRows(this.#database, `SELECT max(seq) AS last FROM ${table}`)][0]!['last'] ?? 0)
    const find = this.#database.prepare(`SELECT ${id} AS id FROM ${table} WHERE seq = ?`)
    return {
      length: last + logged.length,
      at: (number) => (number > last ? String(logged[number - last - 1]) : textOf(find.get(number)?.['id']))
    }
  }

  *#after(table: 'request' | 'audit', seq: number, logged: (batch: Batch) => unknown[]): Generator<number> {
    for (const { time } of readRows(this.#database, `SELECT time FROM ${table} WHERE seq > ?`, seq)) yield Number(time)
    const last = Number([...readRows(this.#database, `SELECT max(seq) AS last FROM ${table}`)][0]!['last'] ?? 0)
    yield* this.#batches
      .flatMap(logged)
      .slice(Math.max(0, seq - last))
      .map(Number)
  }
}

/** The id of a record, or a hash. */
function textOf(id: Value | undefined): string | undefined {
  return id === undefined ? undefined : idIn(id)
}

/** One column of rows in a flat array. */
function column(rows: readonly unknown[], columns: readonly string[], name: string): unknown[] {
  const place = columns.indexOf(name)
  return rows.filter((_, at) => at % columns.length === place)
}
