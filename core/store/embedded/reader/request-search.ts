// Searches the request log in the database, block by block from the newest on. Runs in the reader thread.
import { search } from '../rows/fact-block.ts'
import { boundColumns, boundsOf, factsOf, matches } from '../rows/facts.ts'
import type { FactQuery } from '../rows/facts.ts'
import { gistIn } from '../rows/record-text.ts'
import type { RecordRow } from '../rows/record-text.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import { idForms } from '../rows/uuid.ts'
import { blockSize } from '../database/schema.ts'
import type { Database } from '../files/sqlite.ts'

/** The most blocks that one question reads, some two million records: other searches wait for it. */
const mostBlocks = 2000

/** A checked query of the request log. */
export interface RequestSearch extends FactQuery {
  readonly id: string | undefined
  /** Only records with a smaller seq are listed. */
  readonly before: number | undefined
  readonly limit: number
}

/**
 * A page: rows of records, newest first, and the `before` of the next page. One that read as many blocks as a question
 * may has fewer records than asked for, or none, and the next goes on there.
 */
export interface FoundRequests {
  records: RecordRow[]
  next: number | undefined
}

interface Line extends RecordRow {
  readonly seq: number
  readonly time: number
}

/** Finds one page of records, of one moment. `most` is how many blocks it reads. */
export function searchRequests(database: Database, query: RequestSearch, most = mostBlocks): FoundRequests {
  database.exec('BEGIN')
  try {
    const { limit } = query
    const { lines, reached } = query.id === undefined ? scan(database, query, most) : find(database, query)
    const page = lines.slice(0, limit)
    const records = recordsBeside(database)
    return { records: page.map((row) => records.read(row)), next: lines.length > limit ? page.at(-1)!.seq : reached }
  } finally {
    database.exec('COMMIT')
  }
}

const columns = 'seq, request_id, tenant, key, model, time, json'

function fits(row: Line, query: RequestSearch, database: Database): boolean {
  const record = recordsBeside(database).read(row)
  return matches(factsOf(record, gistIn(record)), query)
}

/** Lines that match; `reached`: those with a smaller seq were not looked at. */
interface Found {
  readonly lines: readonly Line[]
  readonly reached?: number | undefined
}

function find(database: Database, query: RequestSearch): Found {
  const rows = database
    .prepare(`SELECT ${columns} FROM request WHERE request_id IN (?, ?) AND seq < ?`)
    .all(...idForms(query.id!), query.before ?? Number.MAX_SAFE_INTEGER) as unknown as Line[]
  return { lines: rows.filter((row) => fits(row, query, database)) }
}

/** Collects one record more than the page has, so that it is known whether there is a next page. */
function scan(database: Database, query: RequestSearch, most: number): Found {
  const { before = Number.MAX_SAFE_INTEGER, limit } = query
  const edge = (which: 'min' | 'max'): number =>
    (database.prepare(`SELECT ${which}(seq) AS seq FROM request`).get()!['seq'] as number | null) ?? 0
  const last = edge('max')
  const since = query.from.time
  const first = since === undefined ? edge('min') : firstWritten(database, since, last)
  const overlap = boundColumns.map((name) => `${name} ${name.endsWith('_from') ? '<=' : '>='} ?`).join(' AND ')
  const facts = database.prepare(
    `SELECT CASE WHEN ${overlap} THEN columns END AS columns FROM request_facts WHERE block = ?`
  )
  const bounds = boundsOf(query)
  const line = database.prepare(`SELECT ${columns} FROM request WHERE seq = ?`)
  const rows = database.prepare(
    `SELECT ${columns} FROM request WHERE seq BETWEEN ? AND ? AND seq < ? ORDER BY seq DESC`
  )
  const open = blockOf(last)
  const found: Line[] = []
  let read = 0
  for (let block = blockOf(Math.min(last, before - 1)); block >= blockOf(first) && found.length <= limit; block--) {
    const from = block * blockSize
    const known = block < open ? facts.get(...bounds, block) : undefined
    if (known) {
      const columns = known['columns'] as Uint8Array | null
      if (!columns) continue
      if (read++ === most) return { lines: found, reached: from + blockSize }
      for (const place of search(columns, query)) {
        const seq = from + place
        if (seq >= before || seq < first) continue
        const one = line.get(seq) as unknown as Line | undefined
        if (one && found.push(one) > limit) break
      }
    } else {
      // The block that is being filled, or one that an earlier version has filled.
      const all = rows.iterate(Math.max(first, from), from + blockSize - 1, before) as Iterable<unknown>
      for (const row of all as Iterable<Line>) if (fits(row, query, database) && found.push(row) > limit) break
    }
  }
  return { lines: found }
}

function blockOf(seq: number): number {
  return Math.floor(seq / blockSize)
}

/**
 * Returns the smallest seq written at or after a time. A record is written after its request arrived, so records with a
 * smaller seq cannot match.
 */
function firstWritten(database: Database, time: number, last: number): number {
  const at = database.prepare('SELECT seq, written FROM request WHERE seq >= ? ORDER BY seq LIMIT 1')
  let low = 0
  let high = last + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const row = at.get(middle)
    if (!row || (row['written'] as number) >= time) high = middle
    else low = (row['seq'] as number) + 1
  }
  return low
}
