// Writes the rows of a store into the tables of a book, part by part, in the transaction of their batch.
import { isHour, windowsOf } from '../window.ts'
import type { Spans } from '../window.ts'
import { searchable } from '../cluster/documents/document-book.ts'
import type { Transaction } from '../cluster/database/lane.ts'
import { plain } from '../cluster/database/text.ts'
import { columnsOf } from '../cluster/requests/line.ts'
import type { AuditEntry } from '../documents.ts'
import { hourOf } from '../embedded/balance/hours.ts'
import type { Row, Value } from '../embedded/files/sqlite.ts'
import { entryColumns } from '../embedded/rows/batch.ts'
import type { RequestRecord } from '../requests.ts'
import { day } from '../window.ts'
import type { Work } from '../works.ts'
import type { Part } from './parts.ts'

/** What rows are written with. */
export interface BookRows {
  readonly transaction: Transaction
  /** The node that the journal and the holds are of. */
  readonly node: string
  /** A UUID that the sums of traffic belong to. */
  readonly series: string
  /** How many rows of the part were written before. */
  readonly before: number
}

/** Writes some rows of each part. They are not there yet. */
export const writers: Readonly<Record<Part, (rows: readonly Row[], to: BookRows) => Promise<void>>> = {
  price: (rows, to) =>
    insert(to, rows, 'insert into sluice.price (version, json) select version, json', 'version text, json text'),

  balance: (rows, to) =>
    insert(
      to,
      rows.map((row) => ({ ...row, hour: hourIn(row['window'] as string) })),
      `with made as (
         insert into sluice.cell (scope, "window", hour) select scope, "window", hour from given
         returning id, scope, "window")
       insert into sluice.balance (id, posted, pending, "limit")
       select made.id, g.posted, g.pending, g."limit" from made join given g using (scope, "window")`,
      'scope text, "window" text, hour int, posted bigint, pending bigint, "limit" bigint'
    ),

  async journal(rows, to) {
    const days = new Set(rows.map((row) => Math.floor(Number(row['ts_ms']) / day)))
    for (const one of days)
      await to.transaction.query(`select sluice.journal_day_1(date '1970-01-01' + $1::int)`, [one])
    await insert(
      to,
      rows,
      `insert into sluice.journal (day, node, epoch, seq, prev_hash, hash, ${entryColumns.join(', ')})
       select date '1970-01-01' + (ts_ms / 86400000)::int, node, epoch, seq, decode(prev_hash, 'hex'),
         decode(hash, 'hex'), ${entryColumns.join(', ')}`,
      `node text, epoch int, seq bigint, prev_hash text, hash text, kind text, request_id text, part text, class text,
       scopes text, amount bigint, reserved bigint, usage_json text, model text, channel text, price_version text,
       source text, ts_ms bigint, tags text, cost bigint, cost_price text`
    )
    const ends = new Map(rows.map(({ epoch, seq, hash }) => [epoch, { node: to.node, epoch, seq, hash }]))
    await insert(
      to,
      [...ends.values()] as Row[],
      `insert into sluice.journal_chain (node, epoch, seq, hash, continues)
       select node, epoch, seq, decode(hash, 'hex'), true from given
       on conflict (node, epoch) do update set seq = excluded.seq, hash = excluded.hash`,
      'node text, epoch int, seq bigint, hash text'
    )
  },

  origin: (rows, to) =>
    insert(
      to,
      rows,
      `insert into sluice.journal_origin (node, epoch, first, last, hash)
       select node, epoch, first, last, decode(hash, 'hex')`,
      'node text, epoch int, first bigint, last bigint, hash text'
    ),

  /** The node of the holds counts as gone: the first gateway that starts ends those that nobody goes on with. */
  async hold(rows, to) {
    if (rows.length === 0) return
    const { transaction, node } = to
    await transaction.query(
      `insert into sluice.node (name, start, epoch, joined, batch, expires)
       select $1, 'moved', coalesce(max(epoch), 0) + 1, coalesce(max(epoch), 0) + 1, 0, clock_timestamp() from sluice.journal_chain where node = $1
       on conflict do nothing`,
      [node]
    )
    const held: Record<string, unknown>[] = []
    for (const { streamed, ...row } of rows)
      held.push({ ...row, node, streamed: Number(streamed) !== 0, cells: await cellsOf(row, transaction) })
    const columns = `request_id, part, node, cells, scopes, tags, amount, model, price_version, cost_price, input_units,
      max_out, pieces, channel, delivered, endpoint, client_protocol, streamed, time, lease_until`
    await insert(
      to,
      held,
      `insert into sluice.hold (${columns}) select ${columns}`,
      `request_id text, part text, node text, cells bigint[], scopes text, tags text, amount bigint, model text,
       price_version text, cost_price text, input_units bigint, max_out bigint, pieces text, channel text,
       delivered bigint, endpoint text, client_protocol text, streamed boolean, "time" bigint, lease_until bigint`
    )
  },

  async document(rows, to) {
    const { before, transaction } = to
    const numbered = rows.map(({ kind, id, json }, i) => ({ kind, id, json, place: before + i + 1 })) as Row[]
    await insert(
      to,
      numbered,
      `insert into sluice.document (kind, id, value, version, place) select kind, id, json, place, place`,
      'kind text, id text, json text, place bigint'
    )
    await transaction.query('update sluice.book set version = $1', [before + rows.length])
  },

  async secret(rows, to) {
    const columns = `sha256 text, issuer text, model text, settings text, expires bigint, budget numeric, posted numeric,
      holds text`
    await insert(
      to,
      rows,
      `insert into sluice.client_secret (sha256, issuer, model, settings, expires, budget, posted)
       select decode(sha256, 'hex'), decode(issuer, 'hex'), model, settings, to_timestamp(expires / 1000.0), budget, posted`,
      columns
    )
    await insert(
      to,
      rows,
      `insert into sluice.client_secret_hold (sha256, name, amount)
       select decode(sha256, 'hex'), h.key, h.value::numeric from given, json_each_text(holds::json) h`,
      columns
    )
  },

  async audit(rows, to) {
    const entries = rows.map(({ seq, time, json, hash }) => ({
      ...searchable(JSON.parse(json as string) as AuditEntry),
      seq,
      time,
      json,
      hash
    }))
    const columns = 'seq, time, json, hash, object, actor, tenant, action, object_kind, outcome'
    await insert(
      to,
      entries,
      `insert into sluice.audit (${columns}) select ${columns}`,
      `seq bigint, "time" bigint, json text, hash text, object text, actor text, tenant text, action text,
       object_kind text, outcome text`
    )
    const last = rows.at(-1)
    if (last)
      await to.transaction.query('update sluice.book set audits = $1, audit_hash = $2', [last['seq'], last['hash']])
  },

  route: (rows, to) =>
    insert(
      to,
      rows.map((row) => ({ ...row, id: plain(row['id'] as string) })),
      `insert into sluice.route (tenant, project, id, kind, channel, account, model, tokens, expires)
       select tenant, project, id, kind, channel, account, model, tokens, expires`,
      `tenant text, project text, id text, kind text, channel text, account text, model text, tokens bigint,
       expires bigint`
    ),

  /** Open work counts as given up: the first gateway that looks takes it over. */
  work: (rows, to) =>
    insert(
      to,
      rows.map((row) => {
        const { requestId, bytes } = JSON.parse(row['json'] as string) as Work
        const open = Number(row['open']) !== 0
        return { ...row, id: plain(row['id'] as string), open, request_id: plain(requestId), bytes }
      }),
      `insert into sluice.work (tenant, project, id, kind, open, created, expires, request_id, bytes, json, owner, until)
       select tenant, project, id, kind, open, created, expires, request_id, bytes, json,
         'moved', case when open then timestamptz '-infinity' end`,
      `tenant text, project text, id text, kind text, open boolean, created bigint, expires bigint, request_id text,
       bytes bigint, json text`
    ),

  async result(rows, { transaction }) {
    for (const { tenant, project, id, number, bytes } of rows)
      await transaction.query(
        'insert into sluice.work_result (tenant, project, id, number, bytes) values ($1, $2, $3, $4, $5)',
        [tenant, project, plain(id as string), number, bytes]
      )
  },

  answer: (rows, to) =>
    insert(
      to,
      rows.map(({ id, asked, body, streamed, ...row }) => ({
        ...row,
        streamed: Number(streamed) !== 0,
        id: hexOf(id),
        asked: hexOf(asked),
        body: body === null ? null : hexOf(body)
      })),
      `insert into sluice.answer (id, tenant, time, asked, status, type, headers, streamed, body)
       select decode(id, 'hex'), tenant, time, decode(asked, 'hex'), status, type, headers, streamed, decode(body, 'hex')`,
      `id text, tenant text, "time" bigint, asked text, status int, type text, headers text, streamed boolean, body text`
    ),

  async request(rows, to) {
    for (const one of new Set(rows.map(({ time }) => Math.floor(Number(time) / day))))
      await to.transaction.query('select sluice.make_request_day($1)', [one])
    const records = rows.map((row) => {
      const json = row['json'] as string
      const record = JSON.parse(json) as RequestRecord
      return { ...columnsOf({ record, json, time: Number(row['time']) }), written: row['written'] }
    })
    const columns = `time, request_id, written, tenant, key, model, project, member, endpoint, channels, code, outcome,
      tags, status, cost, duration, json`
    await insert(
      to,
      records,
      `insert into sluice.request (${columns}) select ${columns}`,
      `"time" bigint, request_id text, written bigint, tenant text, key text, model text, project text, member text,
       endpoint text, channels text[], code text, outcome text, tags text[], status int, cost bigint,
       duration double precision, json text`
    )
  },

  traffic: (rows, to) =>
    insert(
      to,
      rows.map((row) => ({
        ...row,
        ...Object.fromEntries(['scope', 'model', 'channel'].map((name) => [name, plain(row[name] as string)])),
        series: to.series
      })),
      `insert into sluice.traffic (span, scope, time, model, channel, series, requests, codes, input, output, cost, first)
       select span, scope, time, model, channel, series, requests, codes, input, output, cost, first`,
      `span text, scope text, "time" bigint, model text, channel text, series uuid, requests bigint, codes text,
       input bigint, output bigint, cost numeric, first text`
    )
}

/** Runs a statement on rows that go there as JSON, money as text: `given` in it, or what its last select reads. */
async function insert(
  { transaction }: BookRows,
  rows: readonly Readonly<Record<string, unknown>>[],
  statement: string,
  columns: string
): Promise<void> {
  if (rows.length === 0) return
  const sent = JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
  const given = `given as (select * from json_to_recordset($1) r(${columns}))`
  const text = statement.startsWith('with ')
    ? `with ${given}, ${statement.slice(5)}`
    : `with ${given} ${statement}${statement.includes('from given') ? '' : ' from given'}`
  await transaction.query(text, [sent])
}

/** The ids of the balances that a hold counts in. */
async function cellsOf(hold: Row, transaction: Transaction): Promise<string[]> {
  const time = Number(hold['time'])
  const scopes = JSON.parse(hold['scopes'] as string) as Record<string, Spans>
  const places = Object.entries(scopes)
    .flatMap(([scope, spans]) => windowsOf(spans, time).map((window) => ({ scope, window, key: `${scope} ${window}` })))
    .sort((one, other) => (one.key < other.key ? -1 : 1))
  const { rows } = await transaction.query<{ id: bigint }>('select id from sluice.money_cells_1($1, $2, $3)', [
    places.map(({ scope }) => scope),
    places.map(({ window }) => window),
    places.map(({ window }) => hourIn(window))
  ])
  return rows.map(({ id }) => String(id))
}

/** Which hour since 1970 a window is; null when it is none. */
function hourIn(window: string): number | null {
  return isHour(window) ? hourOf(Date.parse(`${window}:00:00Z`)) : null
}

function hexOf(bytes: Value | undefined): string {
  return Buffer.from(bytes as Uint8Array).toString('hex')
}
