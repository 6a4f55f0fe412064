// The request log of this store: records are written in the batches of the writer, and read by the reader thread.
import { GatewayError } from '../../../errors.ts'
import { recordValues } from '../rows/batch.ts'
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
import type { Writer } from '../writer/writer.ts'

/** The request log. */
export class Logbook implements RequestBook {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #troubles: Troubles
  readonly #owes: (requestId: string) => boolean

  /** `owes` says whether a request has a hold whose end is not on disk: its record is never dropped. */
  constructor(writer: Writer, reader: Reader, troubles: Troubles, owes: (requestId: string) => boolean) {
    this.#writer = writer
    this.#reader = reader
    this.#troubles = troubles
    this.#owes = owes
  }

  append(record: RequestRecord, json?: string, time?: number): void {
    if (this.#writer.full && !this.#owes(record.request_id)) {
      this.#writer.health.droppedRecords++
      this.#troubles.begin('records', this.#writer.health.lastError ?? 'more comes than the disk takes')
      return
    }
    this.#troubles.over('records')
    const { draft } = this.#writer
    const values = recordValues(record, json, time)
    draft.records.push(...values)
    draft.count(values[5].length)
    this.#writer.wakeSoon()
  }

  /** Includes everything appended before the call, unless the disk fails. */
  async list(query: RequestQuery): Promise<{ data: RequestRecord[]; next: string | null }> {
    const question = check(query)
    if (this.#writer.health.healthy) await this.#writer.flushed()
    const { records, next } = await this.#reader.ask({ kind: 'requests', query: question })
    return {
      data: records.map((record) => JSON.parse(record) as RequestRecord),
      next: next === undefined ? null : String(next)
    }
  }

  /** Includes everything appended before the call, unless the disk fails. */
  async find(id: string, tenant?: string): Promise<WrittenRecord | undefined> {
    if (this.#writer.health.healthy) await this.#writer.flushed()
    const { row } = await this.#reader.ask({ kind: 'request', id, tenant })
    return row && { record: JSON.parse(row.json) as RequestRecord, written: row.written }
  }

  /** Likewise. */
  async totals(query: RequestQuery, parts: number): Promise<RequestTotals> {
    const question = check(query)
    if (this.#writer.health.healthy) await this.#writer.flushed()
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
