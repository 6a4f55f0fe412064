// Counts the requests of the log that match a query, over time. Runs in the reader thread.
import { tally } from '../rows/fact-block.ts'
import { boundColumns, boundsOf, factsOf, matches } from '../rows/facts.ts'
import type { RequestSearch } from './request-search.ts'
import { gistIn } from '../rows/record-text.ts'
import type { RecordRow } from '../rows/record-text.ts'
import type { RequestTotals } from '../../requests.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import { blockSize } from '../database/schema.ts'
import type { Database } from '../files/sqlite.ts'

/** The most blocks that one question reads, some two million records: other questions wait for it. */
const mostBlocks = 2000

/** A checked question. */
export interface TotalsQuery {
  readonly query: Pick<RequestSearch, 'texts' | 'from' | 'to' | 'not'>
  /** How many parts the time is divided into. */
  readonly parts: number
  /** The present time in Unix milliseconds, which the last part reaches to when the query does not say it. */
  readonly now: number
}

/** Counts them, the newest first, so that what is not counted of a very long log is the oldest. */
export function requestTotals(database: Database, { query, parts, now }: TotalsQuery): RequestTotals {
  const edge = (order: 'ASC' | 'DESC'): Record<'seq' | 'time', number> | undefined =>
    database.prepare(`SELECT seq, time FROM request ORDER BY seq ${order} LIMIT 1`).get() as never
  const [first, last] = [edge('ASC'), edge('DESC')]
  const to = Math.min(query.to.time ?? now, now)
  const from = Math.min(query.from.time ?? first?.time ?? to, to)
  const width = Math.max(1, Math.ceil((to - from + 1) / parts))
  const counts = Array.from({ length: parts }, (_, part) => ({
    at: from + part * width,
    requests: 0,
    refused: 0,
    failed: 0
  }))
  const count = (time: number, status: number): void => {
    const part = counts[Math.floor((time - from) / width)]
    if (!part) return
    part.requests++
    if (status >= 500) part.failed++
    else if (status >= 400) part.refused++
  }
  let counted = from
  if (first && last) {
    const within = { ...query, from: { ...query.from, time: from }, to: { ...query.to, time: to } }
    counted = countBlocks(database, within, first.seq, last.seq, count) ?? from
  }
  return { from, to, width, counted, parts: counts.filter(({ at }) => at <= to) }
}

/** Returns the time before which nothing was counted, when there was too much. */
function countBlocks(
  database: Database,
  query: TotalsQuery['query'],
  first: number,
  last: number,
  count: (time: number, status: number) => void
): number | undefined {
  const overlap = boundColumns.map((name) => `${name} ${name.endsWith('_from') ? '<=' : '>='} ?`).join(' AND ')
  const facts = database.prepare(
    `SELECT CASE WHEN ${overlap} THEN columns END AS columns, time_from FROM request_facts WHERE block = ?`
  )
  const bounds = boundsOf(query)
  const rows = database.prepare(
    'SELECT request_id, tenant, key, model, time, json FROM request WHERE seq BETWEEN ? AND ?'
  )
  const open = Math.floor(last / blockSize)
  let read = 0
  for (let block = open; block >= Math.floor(first / blockSize); block--) {
    const known = block < open ? facts.get(...bounds, block) : undefined
    if (known) {
      const columns = known['columns'] as Uint8Array | null
      if (!columns) continue
      tally(columns, query, count)
      if (++read === mostBlocks) return known['time_from'] as number
      continue
    }
    // The block that is being filled, or one that an earlier version has filled.
    for (const one of rows.iterate(block * blockSize, (block + 1) * blockSize - 1) as Iterable<unknown>) {
      const record = recordsBeside(database).read(one as RecordRow)
      const gist = gistIn(record)
      if (matches(factsOf(record, gist), query)) count(Number(record.time), gist.status)
    }
  }
  return undefined
}
