// The request log of this store: records are written in the batches of the writer, and read by the reader thread.
import { GatewayError } from '../../../errors.ts'
import { recordIn } from '../rows/record-text.ts'
import type { Reader } from '../reader/reader.ts'
import type { RequestSearch } from '../reader/request-search.ts'
import type {
  RequestBook,
  RequestQuery,
  RequestRecord,
  RequestTexts,
  RequestTotals,
  WrittenRecord
} from '../../requests.ts'
import type { Troubles } from '../files/troubles.ts'
import type { Drafts } from '../writer/draft.ts'
import type { StoreHealth } from '../../store.ts'
import { RecordLog } from './record-log.ts'

/** The request log. */
export class Logbook extends RecordLog implements RequestBook {
  readonly #drafts: Drafts
  readonly #health: StoreHealth
  readonly #reader: Reader

  /** `owes`: see {@link RecordLog}. */
  constructor(
    drafts: Drafts,
    health: StoreHealth,
    reader: Reader,
    troubles: Troubles,
    owes: (requestId: string) => boolean
  ) {
    super(drafts, owes, (dropped) => {
      if (!dropped) return troubles.over('records')
      health.droppedRecords++
      troubles.begin('records', health.lastError ?? 'more comes than the disk takes')
    })
    this.#drafts = drafts
    this.#health = health
    this.#reader = reader
  }

  /** Includes everything appended before the call, unless the disk fails. */
  async list(query: RequestQuery): Promise<{ data: RequestRecord[]; next: string | null }> {
    const question = check(query)
    if (this.#health.healthy) await this.#drafts.flushed()
    const { records, next } = await this.#reader.ask({ kind: 'requests', query: question })
    return {
      data: records.map(recordIn),
      next: next === undefined ? null : String(next)
    }
  }

  /** Includes everything appended before the call, unless the disk fails. */
  async find(id: string, tenant?: string): Promise<WrittenRecord | undefined> {
    if (this.#health.healthy) await this.#drafts.flushed()
    const { row } = await this.#reader.ask({ kind: 'request', id, tenant })
    return row && { record: recordIn(row), written: row.written }
  }

  /** Likewise. */
  async totals(query: RequestQuery, parts: number): Promise<RequestTotals> {
    const question = check(query)
    if (this.#health.healthy) await this.#drafts.flushed()
    const { totals } = await this.#reader.ask({ kind: 'totals', of: { query: question, parts, now: Date.now() } })
    return totals
  }
}

/**
 * Checks a query.
 * @throws GatewayError `invalid_field`
 */
function check({ request_id, limit, cursor, ...query }: RequestQuery): RequestSearch {
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
    throw new GatewayError('invalid_field', `cursor is ${cursor}: it must be the next of an earlier page.`, {
      param: 'cursor'
    })
  }
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) {
    throw new GatewayError('invalid_field', `limit is ${limit}: it must be a whole number from 1 to 1000.`, {
      param: 'limit'
    })
  }
  const { time, status, cost, duration, not } = query
  const given = Object.entries({ time, status, cost, duration })
  const side = (end: 'from' | 'to'): Record<string, number> =>
    Object.fromEntries(
      given.flatMap(([name, bounds]) => (bounds?.[end] === undefined ? [] : [[name, Number(bounds[end])]]))
    )
  return {
    id: request_id,
    texts: textsOf(query),
    from: side('from'),
    to: side('to'),
    not: not && {
      texts: textsOf(not),
      status: not.status && [not.status.from ?? -Infinity, not.status.to ?? Infinity]
    },
    limit,
    before: cursor === undefined ? undefined : Number(cursor)
  }
}

/** The texts of a query as facts have them. */
function textsOf(query: RequestTexts): RequestSearch['texts'] {
  const { tenant, project, member, key, model, endpoint, channel, code, outcome, tag } = query
  const texts = { tenant, project, member, key, model, endpoint, channels: channel, code, outcome, tags: tag }
  return Object.fromEntries(Object.entries(texts).filter(([, value]) => value !== undefined))
}
