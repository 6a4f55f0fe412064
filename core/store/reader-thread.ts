// The reader thread: answers queries of the request log on a read-only connection, so that none of them delays a commit.
import { parentPort, workerData } from 'node:worker_threads'
import { blockSize } from './committer.ts'
import { openForReading } from './sqlite.ts'
import type { Database, Value } from './sqlite.ts'

/** A checked query; conditions that are undefined do not limit. */
export interface ReaderQuery {
  id: number
  request_id: string | undefined
  tenant: string | undefined
  key: string | undefined
  model: string | undefined
  /** Unix milliseconds. */
  since: number | undefined
  /** Only records with a smaller seq. */
  before: number | undefined
  limit: number
}

/** Records as JSON, newest first; `next` is the `before` of the next page. */
export type ReaderReply = { id: number; records: string[]; next: number | undefined } | { id: number; error: string }

const port = parentPort!
let database: Database | undefined

port.on('message', (query: ReaderQuery) => {
  try {
    database ??= openForReading(workerData as string)
    port.postMessage({ id: query.id, ...list(database, query) } satisfies ReaderReply)
  } catch (error) {
    database?.close()
    database = undefined
    port.postMessage({ id: query.id, error: String(error) } satisfies ReaderReply)
  }
})

function list(database: Database, query: ReaderQuery): { records: string[]; next: number | undefined } {
  database.exec('BEGIN')
  try {
    const { limit } = query
    const rows = query.request_id === undefined ? scan(database, query) : find(database, query)
    const page = rows.slice(0, limit)
    return { records: page.map(({ json }) => json), next: rows.length > limit ? page.at(-1)!.seq : undefined }
  } finally {
    database.exec('COMMIT')
  }
}

interface Row {
  seq: number
  json: string
}

const matching = 'seq < ? AND time >= ? AND tenant IS coalesce(?, tenant) AND key IS coalesce(?, key) AND model IS coalesce(?, model)'

function conditions({ tenant, key, model, since, before }: ReaderQuery): Value[] {
  return [before ?? Number.MAX_SAFE_INTEGER, since ?? 0, tenant ?? null, key ?? null, model ?? null]
}

function find(database: Database, query: ReaderQuery): Row[] {
  const rows = database.prepare(`SELECT seq, json FROM request WHERE request_id = ? AND ${matching}`).all(query.request_id!, ...conditions(query))
  return rows as unknown as Row[]
}

/** Goes back block by block; a full one that request_block does not know to hold what is asked for is passed over. */
function scan(database: Database, query: ReaderQuery): Row[] {
  const { tenant, key, model, since, before = Number.MAX_SAFE_INTEGER, limit } = query
  const last = (database.prepare('SELECT max(seq) AS seq FROM request').get()!['seq'] as number | null) ?? 0
  const first = since === undefined ? ((database.prepare('SELECT min(seq) AS seq FROM request').get()!['seq'] as number | null) ?? 0) : firstWritten(database, since, last)
  const wanted = Object.entries({ tenant, key, model }).filter(([, value]) => value !== undefined) as [string, string][]
  const holds = database.prepare('SELECT 1 FROM request_block WHERE block = ? AND field = ? AND value = ?')
  const rows = database.prepare(`SELECT seq, json FROM request WHERE seq BETWEEN ? AND ? AND ${matching} ORDER BY seq DESC LIMIT ?`)
  const open = blockOf(last)
  const found: Row[] = []
  for (let block = blockOf(Math.min(last, before - 1)); block >= blockOf(first) && found.length <= limit; block--) {
    if (block < open && !wanted.every(([field, value]) => holds.get(block, field, value))) continue
    const from = Math.max(first, block * blockSize)
    found.push(...(rows.all(from, block * blockSize + blockSize - 1, ...conditions(query), limit + 1 - found.length) as unknown as Row[]))
  }
  return found
}

function blockOf(seq: number): number {
  return Math.floor(seq / blockSize)
}

/** The smallest seq written at or after a time. A record is written after its request arrived, so older ones can not match. */
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
