// Reads a store of one machine, row by row, for a move.
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { nameOf } from '../embedded/book/open-work.ts'
import { balancesIn, presentBalances } from '../embedded/care/ledger-file.ts'
import { identityOf, readHead } from '../embedded/database/head.ts'
import { checkSchema } from '../embedded/database/migration.ts'
import { DamagedStore } from '../embedded/files/damage.ts'
import { Ownership } from '../embedded/files/lock.ts'
import { resultFile, resultsFolder } from '../embedded/files/results.ts'
import { openForReading, readRows } from '../embedded/files/sqlite.ts'
import type { Database, Row, Value } from '../embedded/files/sqlite.ts'
import { readVolume, volumeFolder, volumeOf } from '../embedded/journal/volume.ts'
import { surveyBeside } from '../embedded/recovery/survey.ts'
import { entryColumns } from '../embedded/rows/batch.ts'
import { rowOf } from '../embedded/recovery/folded-leftovers.ts'
import { hasJournal } from '../embedded/segments/folder.ts'
import { recordsBeside } from '../embedded/segments/record-reader.ts'
import type { RecordReader } from '../embedded/segments/record-reader.ts'
import { JournalReader } from '../embedded/segments/journal-reader.ts'
import { lastBatch, surveyJournal } from '../embedded/segments/journal-survey.ts'
import { recordIn } from '../embedded/rows/record-text.ts'
import type { RecordRow } from '../embedded/rows/record-text.ts'
import type { Balance } from '../ledger.ts'
import { nodeOf, pieceBytes } from './parts.ts'
import type { Carried, Counts, Key, Part, Source } from './parts.ts'

/** A part that is a query: its rows, and the columns of its key, whose places in the query are `?`. */
interface Read {
  readonly select: string
  readonly from: string
  readonly keys: readonly string[]
  /** Makes of a row of the query what is carried. */
  readonly carried?: (row: Row, records: RecordReader) => Row
}

const reads: Readonly<Partial<Record<Part, Read>>> = {
  price: { select: 'version, json', from: 'price', keys: ['version'] },
  origin: { select: 'first, last, node, epoch, lower(hex(hash)) AS hash', from: 'journal_origin', keys: ['first'] },
  hold: {
    select:
      'id, request_id, part, scopes, tags, amount, model, price_version, cost_price, input_units, max_out, pieces, channel, delivered_units AS delivered, endpoint, client_protocol, streamed, ts_ms AS time, lease_until',
    from: 'reservation',
    keys: ['id']
  },
  document: {
    select: 'number, kind, id, json',
    from: "(SELECT * FROM document WHERE kind <> 'client_secret')",
    keys: ['number']
  },
  // They are documents here, and have tables of their own in a book.
  secret: {
    select: `number, id AS sha256, json ->> '$.issuer' AS issuer, json ->> '$.model' AS model,
      json ->> '$.settings' AS settings, json ->> '$.expires' AS expires, json ->> '$.budget' AS budget,
      coalesce(json ->> '$.posted', '0') AS posted, coalesce(json ->> '$.holds', '{}') AS holds`,
    from: "(SELECT * FROM document WHERE kind = 'client_secret')",
    keys: ['number']
  },
  audit: { select: 'seq, time, json, lower(hex(hash)) AS hash', from: 'audit', keys: ['seq'] },
  route: {
    select: 'tenant, project, id, kind, channel, account, model, tokens, expires',
    from: 'route',
    keys: ['tenant', 'project', 'id']
  },
  work: {
    select: 'tenant, project, id, kind, open, created, expires, json',
    from: 'work',
    keys: ['tenant', 'project', 'id']
  },
  answer: {
    select: 'seq, id, tenant, time, asked, status, type, headers, streamed, body',
    from: 'answer',
    keys: ['seq']
  },
  request: {
    select: 'seq, request_id, tenant, key, model, time, written, json',
    from: 'request',
    keys: ['seq'],
    carried: (stored, records) => {
      const record = records.read(stored as Row & RecordRow)
      const { tenant: _, key: __, model: ___, ...row } = record
      return { ...row, json: JSON.stringify(recordIn(record)) }
    }
  },
  traffic: {
    select: 'span, scope, time, model, channel, requests, codes, input, output, CAST(cost AS TEXT) AS cost, first',
    from: "(SELECT 'minute' AS span, * FROM traffic_minute UNION ALL SELECT 'hour', * FROM traffic_hour)",
    keys: ['span', 'scope', 'time', 'model', 'channel']
  }
}

/** A store of one machine whose gateway is stopped. */
export class FileSource implements Source {
  readonly shown: string
  readonly stamp: string
  readonly identity: string
  readonly #owner: Ownership
  readonly #database: Database
  /** Where the journal is in segments. */
  readonly #journal: JournalReader | undefined

  private constructor(given: string, owner: Ownership, database: Database, journal: JournalReader | undefined) {
    this.shown = given
    this.#owner = owner
    this.#database = database
    this.#journal = journal
    this.identity = identityOf(database)
    const { boot, writes, hash } = readHead(database)
    this.stamp = `${this.identity} ${boot} ${writes} ${hash}`
  }

  /**
   * Opens a store, and keeps gateways from it until it is closed.
   * @throws StoreInUse while a gateway has it; DamagedStore; Error when it is none, or needs a start of its gateway
   */
  static open(given: string): FileSource {
    if (!statSync(given, { throwIfNoEntry: false })?.isFile()) throw new Error(`there is no store ${given}`)
    const owner = Ownership.take(given)
    const database = openForReading(owner.file)
    try {
      checkSchema(database, given)
      const { batches: logged, damage } = surveyBeside(owner.file)
      const journal = volumeFolder(owner.file)
      const found = hasJournal(journal) ? surveyJournal(journal) : undefined
      damage.push(...(found?.damage ?? []))
      if (damage.length > 0) throw DamagedStore.of(owner.file, damage)
      const batches = found ? lastBatch(found) - readHead(database).batch : logged
      if (batches > 0)
        throw new Error(
          `${given} has ${batches === 1 ? '1 batch' : `${batches} batches`} in its ${found ? 'journal' : 'commit log'} alone, as its gateway did not end by itself: start the gateway once and stop it, or move a copy that "sluice ledger backup" makes`
        )
      return new FileSource(given, owner, database, found && new JournalReader(journal))
    } catch (error) {
      database.close()
      owner.release()
      throw error
    }
  }

  /** The file, for a check of it. */
  get file(): string {
    return this.#owner.file
  }

  close(): void {
    this.#database.close()
    this.#owner.release()
  }

  async counts(): Promise<Counts> {
    const counts = countFile(this.#database, this.file)
    if (!this.#journal) return counts
    const { state } = this.#journal
    return { ...counts, hold: state.holds.size, balance: balancesIn(state).length }
  }

  async *rows(part: Part, after: Key | undefined): AsyncGenerator<Carried> {
    if (part === 'balance') yield* this.#balances(after)
    else if (part === 'journal') yield* this.#entries(Number(after?.[0] ?? 0))
    else if (part === 'hold' && this.#journal) yield* holdsOf(this.#journal, Number(after?.[0] ?? 0))
    else if (part === 'result') yield* this.#pieces(after)
    else yield* this.#query(reads[part]!, after)
  }

  *#query({ select, from, keys, carried }: Read, after: Key | undefined): Generator<Carried> {
    const names = keys.join(', ')
    const where = after ? `WHERE (${names}) > (${keys.map(() => '?').join(', ')})` : ''
    for (const row of readRows(
      this.#database,
      `SELECT ${select} FROM ${from} ${where} ORDER BY ${names}`,
      ...((after ?? []) as Value[])
    ))
      yield {
        key: keys.map((name) => keyValue(row[name]!)),
        row: carried ? carried(row, recordsBeside(this.#database)) : row
      }
  }

  *#balances(after: Key | undefined): Generator<Carried> {
    const name = ({ scope, window }: Balance): string => `${scope} ${window}`
    const balances = this.#journal ? balancesIn(this.#journal.state) : presentBalances(this.#database)
    const sorted = balances.sort((one, other) => (name(one) < name(other) ? -1 : 1))
    for (const { limit = null, ...balance } of sorted)
      if (!after || name({ limit: undefined, ...balance }) > after[0]!)
        yield { key: [name({ limit: undefined, ...balance })], row: { ...balance, limit } }
  }

  /** The entries behind one, from sealed volumes and from the database, or from segments and their volumes. */
  *#entries(after: number): Generator<Carried> {
    const node = nodeOf(this.identity)
    if (this.#journal) {
      for (const row of this.#journal.entries(after))
        yield entryOf(node, row, row['prev_hash'] as string, row['hash'] as string)
      return
    }
    let seq = after
    for (const row of readRows(this.#database, 'SELECT * FROM volume WHERE last > ? ORDER BY first', after)) {
      const volume = volumeOf(row)
      let previous = volume.previous
      for (const entry of readVolume(volumeFolder(this.file), volume)) {
        const { hash } = entry
        if (Number(entry['seq']) > after) yield entryOf(node, entry, previous, hash)
        previous = hash
      }
      seq = volume.last
    }
    for (const row of readRows(
      this.#database,
      `SELECT seq, boot_id, lower(hex(prev_hash)) AS prev_hash, lower(hex(hash)) AS hash, ${entryColumns.join(', ')} FROM journal WHERE seq > ? ORDER BY seq`,
      seq
    ))
      yield entryOf(node, row, row['prev_hash'] as string, row['hash'] as string)
  }

  /** Results in pieces: the key is that of the work, and the number of the piece. */
  *#pieces(after: Key | undefined): Generator<Carried> {
    for (const { tenant, project, id, path, pieces } of worksWithResults(
      this.#database,
      this.file,
      after?.slice(0, 3)
    )) {
      const same = after && after[0] === tenant && after[1] === project && after[2] === id
      const fd = openSync(path, 'r')
      try {
        const { size } = fstatSync(fd)
        for (let number = same ? Number(after[3]) + 1 : 0; number < pieces; number++) {
          const bytes = Buffer.alloc(Math.min(pieceBytes, size - number * pieceBytes))
          readSync(fd, bytes, 0, bytes.length, number * pieceBytes)
          yield { key: [tenant, project, id, number], row: { tenant, project, id, number, bytes } }
        }
      } finally {
        closeSync(fd)
      }
    }
  }
}

/** The open holds of a journal behind an id, as the rows of a query. */
function* holdsOf({ state }: JournalReader, after: number): Generator<Carried> {
  const rows = [...state.holds].map(rowOf).sort((one, other) => Number(one['id']) - Number(other['id']))
  for (const { dispatched: _, boot_id: __, delivered_units: delivered, ts_ms: time, ...row } of rows)
    if (Number(row['id']) > after)
      yield { key: [keyValue(row['id']!)], row: { ...row, delivered: delivered!, time: time! } }
}

/** Counts the rows of a store. */
export function countFile(database: Database, file: string): Counts {
  const counts: Partial<Record<Part, number>> = {}
  for (const [part, { from }] of Object.entries(reads) as [Part, Read][])
    counts[part] = Number(database.prepare(`SELECT count(*) AS count FROM ${from}`).get()!['count'])
  counts.balance = presentBalances(database).length
  counts.journal = readHead(database).seq
  counts.result = 0
  for (const { pieces } of worksWithResults(database, file)) counts.result += pieces
  return counts as Counts
}

/** Work that has a result. */
interface Resulting {
  readonly tenant: string
  readonly project: string
  readonly id: string
  readonly path: string
  readonly pieces: number
}

/** The work that has a result, from one on. */
function* worksWithResults(database: Database, file: string, from?: Key): Generator<Resulting> {
  const folder = resultsFolder(file)
  const names = new Set(existsSync(folder) ? readdirSync(folder) : [])
  const where = from ? 'WHERE (tenant, project, id) >= (?, ?, ?)' : ''
  for (const row of readRows(
    database,
    `SELECT tenant, project, id FROM work ${where} ORDER BY tenant, project, id`,
    ...((from ?? []) as Value[])
  )) {
    const { tenant, project, id } = row as { tenant: string; project: string; id: string }
    const name = resultFile(nameOf({ tenant, project }, id))
    if (!names.has(name)) continue
    const path = join(folder, name)
    yield { tenant, project, id, path, pieces: Math.max(1, Math.ceil(statSync(path).size / pieceBytes)) }
  }
}

function entryOf(node: string, row: Row, previous: string, hash: string): Carried {
  const columns = Object.fromEntries(entryColumns.map((name) => [name, row[name]!]))
  const seq = Number(row['seq'])
  return {
    key: [seq],
    row: { ...columns, node, epoch: Number(row['boot_id']), seq, prev_hash: previous, hash, continues: 1 }
  }
}

function keyValue(value: Value): string | number {
  return typeof value === 'bigint' ? Number(value) : (value as string | number)
}
