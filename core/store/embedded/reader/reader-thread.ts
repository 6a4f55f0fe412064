// The reader thread: answers questions from the database on a read-only connection, so that they delay no commit.
import { openForReading } from '../files/sqlite.ts'
import type { Database, Row, Value } from '../files/sqlite.ts'
import { auditMembers } from '../../documents.ts'
import type { AuditQuery } from '../../documents.ts'
import { querySpend } from './spend-query.ts'
import type { SpendPage, SpendQuery } from '../../spend.ts'
import { searchRequests } from './request-search.ts'
import type { RecordRow } from '../rows/record-text.ts'
import { recordsBeside } from '../segments/record-reader.ts'
import { requestTotals } from './request-totals.ts'
import type { TotalsQuery } from './request-totals.ts'
import type { RequestTotals } from '../../requests.ts'
import type { FoundRequests, RequestSearch } from './request-search.ts'
import { storedBalances, storedHours } from '../database/stored-balances.ts'
import { idForms } from '../rows/uuid.ts'
import { serve } from '../threads/service.ts'
import type { Service } from '../threads/service.ts'
import { queryTraffic } from '../database/traffic-table.ts'
import type { TrafficPoint, TrafficQuery } from '../../traffic.ts'
import type { WorkQuery } from '../../works.ts'

/**
 * The questions that the thread answers.
 * `requests`: a page of the request log. `request`: one of its records. `totals`: counts of them over time.
 * `spend`: a page of sums. `traffic`: points over time.
 * `balances`: those since a time, see {@link storedBalances}. `hours`: those of one scope.
 * `work`: one piece of work. `works`: a page of an owner's work that has not expired at `now`.
 * `expired`: work that expired at `before`. `oldest`: the tenant's oldest ended work whose result takes space.
 * `answer`: a kept answer. `route`: a route that has not expired at `now`. `audit`: entries of the audit log.
 */
export type ReaderQuestion =
  | { kind: 'requests'; query: RequestSearch }
  | { kind: 'request'; id: string; tenant: string | undefined }
  | { kind: 'totals'; of: TotalsQuery }
  | { kind: 'spend'; query: SpendQuery }
  | { kind: 'traffic'; query: TrafficQuery }
  | { kind: 'balances'; since: number }
  | { kind: 'hours'; scope: string; since: number }
  | { kind: 'work'; tenant: string; project: string; id: string }
  | { kind: 'works'; query: WorkQuery; now: number }
  | { kind: 'expired'; before: number; limit: number }
  | { kind: 'oldest'; tenant: string; limit: number }
  /**
   * The names of the work of all owners, as their results are named. `after` is the last name of the page before; empty
   * for the first page.
   */
  | { kind: 'names'; after: string; limit: number }
  /** Answers kept before `since`, in Unix milliseconds, are too old and are not found. */
  | { kind: 'answer'; id: Uint8Array; since: number }
  | { kind: 'route'; tenant: string; project: string; id: string; now: number }
  | { kind: 'audit'; query: AuditQuery }

/** A kept answer as stored. */
export interface StoredAnswer {
  asked: Uint8Array
  status: number
  type: string
  /** A JSON object. */
  headers: string
  streamed: boolean
  body: Uint8Array | null
}

/**
 * The replies. Records are rows, newest first; `next` is the `before` of the next page. Balances are rows as stored,
 * with bigints. Work is JSON.
 */
export type ReaderReply =
  | ({ kind: 'requests' } & FoundRequests)
  | { kind: 'totals'; totals: RequestTotals }
  | { kind: 'request'; row: (RecordRow & { written: number }) | undefined }
  | { kind: 'spend'; page: SpendPage }
  | { kind: 'traffic'; points: TrafficPoint[] }
  | { kind: 'balances' | 'hours'; rows: Row[] }
  | { kind: 'answer'; answer: StoredAnswer | undefined }
  | { kind: 'route'; row: Row | undefined }
  | { kind: 'work'; rows: string[] }
  | { kind: 'works'; rows: string[] }
  | { kind: 'expired'; rows: string[] }
  | { kind: 'oldest'; rows: string[] }
  | { kind: 'names'; rows: string[] }
  | { kind: 'audit'; rows: Row[] }
  | { kind: 'error'; error: string }

/** A question. Its reply has the same `id`. */
export interface NumberedQuestion {
  id: number
  question: ReaderQuestion
}

/** The reply to a {@link NumberedQuestion}. */
export interface Answered {
  id: number
  reply: ReaderReply
}

/** The reader of one database. It opens the database at the first question, and again after an error. */
class StoreReader implements Service<NumberedQuestion> {
  readonly #file: string
  readonly #say: (answered: Answered) => void
  #database: Database | undefined

  constructor(file: string, say: (answered: Answered) => void) {
    this.#file = file
    this.#say = say
  }

  ask({ id, question }: NumberedQuestion): void {
    this.#say({ id, reply: this.#answer(question) })
  }

  end(): void {
    this.#database?.close()
    this.#database = undefined
  }

  #answer(question: ReaderQuestion): ReaderReply {
    try {
      const database = (this.#database ??= openForReading(this.#file))
      if (question.kind === 'requests') return { kind: 'requests', ...searchRequests(database, question.query) }
      if (question.kind === 'request') return { kind: 'request', row: recordOf(database, question) }
      if (question.kind === 'totals') return { kind: 'totals', totals: requestTotals(database, question.of) }
      if (question.kind === 'spend') return { kind: 'spend', page: querySpend(database, question.query) }
      if (question.kind === 'traffic') return { kind: 'traffic', points: queryTraffic(database, question.query) }
      if (question.kind === 'route') return { kind: 'route', row: routeOf(database, question) }
      if (question.kind === 'answer') return { kind: 'answer', answer: answerOf(database, question) }
      if (question.kind === 'audit') return { kind: 'audit', rows: auditOf(database, question.query) }
      if (question.kind === 'balances') return { kind: 'balances', rows: storedBalances(database, question.since) }
      if (question.kind === 'hours')
        return { kind: 'hours', rows: storedHours(database, question.scope, question.since) }
      return { kind: question.kind, rows: works(database, question).map(({ json }) => json as string) }
    } catch (error) {
      this.end()
      return { kind: 'error', error: String(error) }
    }
  }
}

function recordOf(
  database: Database,
  { id, tenant }: Extract<ReaderQuestion, { kind: 'request' }>
): (RecordRow & { written: number }) | undefined {
  const row = database
    .prepare('SELECT request_id, tenant, key, model, time, json, written FROM request WHERE request_id IN (?, ?)')
    .get(...idForms(id)) as (RecordRow & { written: number }) | undefined
  const found = row && recordsBeside(database).read(row)
  return found && (tenant === undefined || found.tenant === tenant) ? found : undefined
}

function answerOf(
  database: Database,
  { id, since }: Extract<ReaderQuestion, { kind: 'answer' }>
): StoredAnswer | undefined {
  const row = database
    .prepare('SELECT asked, status, type, headers, streamed, body FROM answer WHERE id = ? AND time >= ?')
    .get(id, since)
  return row && ({ ...row, streamed: row['streamed'] === 1 } as unknown as StoredAnswer)
}

function routeOf(
  database: Database,
  { tenant, project, id, now }: Extract<ReaderQuestion, { kind: 'route' }>
): Row | undefined {
  const columns = 'tenant, project, id, kind, channel, account, model, tokens'
  return database
    .prepare(`SELECT ${columns} FROM route WHERE tenant = ? AND project = ? AND id = ? AND expires > ?`)
    .get(tenant, project, id, now) as Row | undefined
}

function auditOf(database: Database, { before, since, until, members = {}, limit }: AuditQuery): Row[] {
  const named = auditMembers.filter((name) => members[name] !== undefined)
  // The plus keeps SQLite from an index: without counts of what is in them it would take any of them.
  const matches = named.map((name, place) => `AND ${place === 0 ? '' : '+'}(json ->> '$.${name}') = ?`).join(' ')
  return database
    .prepare(`SELECT * FROM audit WHERE seq < ? AND time BETWEEN ? AND ? ${matches} ORDER BY seq DESC LIMIT ?`)
    .all(
      before ?? Number.MAX_SAFE_INTEGER,
      since ?? 0,
      until ?? Number.MAX_SAFE_INTEGER,
      ...named.map((name) => members[name]!),
      limit
    ) as Row[]
}

function works(
  database: Database,
  question: Extract<ReaderQuestion, { kind: 'work' | 'works' | 'expired' | 'oldest' | 'names' }>
): Row[] {
  const all = (sql: string, ...values: Value[]): Row[] => database.prepare(sql).all(...values) as Row[]
  const one = 'FROM work WHERE tenant = ? AND project = ? AND id = ?'
  if (question.kind === 'work') return all(`SELECT json ${one}`, question.tenant, question.project, question.id)
  if (question.kind === 'expired')
    return all('SELECT json FROM work WHERE expires <= ? ORDER BY expires LIMIT ?', question.before, question.limit)
  if (question.kind === 'names') {
    const [tenant = '', project = '', ...id] = question.after.split('\n')
    const name = 'tenant || char(10) || project || char(10) || id'
    return all(
      `SELECT ${name} AS json FROM work WHERE (tenant, project, id) > (?, ?, ?) ORDER BY tenant, project, id LIMIT ?`,
      tenant,
      project,
      id.join('\n'),
      question.limit
    )
  }
  if (question.kind === 'oldest') {
    return all(
      'SELECT json FROM work WHERE tenant = ? AND open = 0 AND bytes IS NOT NULL ORDER BY created LIMIT ?',
      question.tenant,
      question.limit
    )
  }
  const { tenant, project, kind, after, limit, newestFirst, of } = question.query
  const [beyond, order] = newestFirst ? ['<', 'DESC'] : ['>', 'ASC']
  const page = after === undefined ? '' : `AND (created, id) ${beyond} (SELECT created, id ${one})`
  const place = after === undefined ? [] : [tenant, project, after]
  const begun = of ? "AND created BETWEEN ? AND ? AND json ->> '$.requestId' = ?" : ''
  return all(
    `SELECT json FROM work WHERE tenant = ? AND project = ? AND kind = ? AND (expires IS NULL OR expires > ?) ${begun} ${page} ORDER BY created ${order}, id ${order} LIMIT ?`,
    tenant,
    project,
    kind,
    question.now,
    ...(of ? [of.from, of.to, of.requestId] : []),
    ...place,
    limit
  )
}

serve((file: string, say: (answered: Answered) => void) => new StoreReader(file, say))
