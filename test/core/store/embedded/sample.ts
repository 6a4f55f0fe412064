// What the tests of the store reserve, settle and log.
import { randomUUIDv7 } from 'node:crypto'
import { openForReading } from '../../../../core/store/embedded/files/sqlite.ts'
import type { Budget, Scope } from '../../../../core/catalogue/caller.ts'
import { formatDollars } from '../../../../core/money/money.ts'
import { costOf } from '../../../../core/money/price.ts'
import type { Price } from '../../../../core/money/price.ts'
import type { Ledger, Reservation, ReserveRequest } from '../../../../core/store/ledger.ts'
import type { RequestRecord } from '../../../../core/store/requests.ts'
import type { Store } from '../../../../core/store/store.ts'
import { shadow } from './shadow.ts'
import type { Work } from '../../../../core/store/works.ts'
import type { Usage } from '../../../../core/money/usage.ts'

/** 1 nano-dollar per output token, so that tests can count in tokens. */
export const price: Price = { version: 'sample:1', perMillion: { input: 2_000_000n, output: 1_000_000n } }

/** Noon of an ordinary day. */
export const noon = Date.UTC(2026, 10, 21, 12)

export function scope(kind: Scope['kind'], id: string, limit?: bigint, per: Budget['per'] = 'total'): Scope {
  return { kind, id: `${kind}:${id}`, budgets: limit === undefined ? [] : [{ limit, per }] }
}

export function used(output: number, input = 0): Usage {
  return { input, cached_input: 0, cache_write: 0, output, reasoning: 0 }
}

/** Holds an amount of nano-dollars; the rest is ordinary. */
export function reserve(
  ledger: Ledger,
  scopes: readonly Scope[],
  amount: bigint,
  more: Partial<ReserveRequest> = {}
): Reservation {
  return ledger.reserve({
    requestId: randomUUIDv7(),
    scopes,
    amount,
    model: 'gpt-5',
    price,
    estimate: { input: 10, maxOutput: 100 },
    time: noon,
    ...more
    // A store of this process decides at once.
  }) as Reservation
}

/** Settles for that many output tokens, with the record that belongs to it. */
export function settle(store: Store, reservation: Reservation, output: number): Promise<void> {
  const usage = used(output)
  const amount = costOf(usage, price)
  const settled = reservation.settle({ usage, amount, source: 'upstream', channel: 'openai' })
  store.requests.append(
    record({ request_id: reservation.requestId, usage, cost_usd: formatDollars(amount), cost_nano: String(amount) })
  )
  return settled
}

/** Gives a reservation back, with the record that belongs to it. */
export function giveBack(store: Store, reservation: Reservation): Promise<void> {
  const voided = reservation.void()
  store.requests.append(record({ request_id: reservation.requestId, outcome: 'failed', status: 502 }))
  return voided
}

export function record(fields: Partial<RequestRecord> = {}): RequestRecord {
  return {
    request_id: randomUUIDv7(),
    time: new Date(noon).toISOString(),
    tenant: 'acme',
    project: 'web',
    member: 'alice',
    key: 'laptop',
    model: 'gpt-5',
    requested_model: null,
    endpoint: 'chat',
    client_protocol: 'openai-chat',
    channel: 'openai',
    channel_protocol: 'openai',
    status: 200,
    error_code: null,
    outcome: 'completed',
    streamed: false,
    usage: null,
    usage_source: null,
    cost_usd: '0',
    cost_nano: '0',
    price_version: null,
    reserved_nano: null,
    attempts: [],
    first_byte_ms: 5,
    duration_ms: 10,
    client_request_id: null,
    ...fields
  }
}

/** What SQL says about a store's file, integers as bigint. */
export function query(file: string, sql: string): Record<string, unknown>[] {
  const database = openForReading(file)
  try {
    shadow(database, file, sql)
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return statement.all()
  } finally {
    database.close()
  }
}

/** Open work of the project acme/web, which was begun at noon. */
export function work(id: string, more: Partial<Work> = {}): Work {
  return {
    tenant: 'acme',
    project: 'web',
    id,
    kind: 'video',
    requestId: `request of ${id}`,
    model: 'demo',
    channel: 'first',
    upstreamId: `at the upstream ${id}`,
    account: 'a',
    status: 'queued',
    progress: 0,
    created: noon,
    updated: noon,
    ended: null,
    deadline: noon + 1000,
    expires: null,
    error: null,
    usage: null,
    details: {},
    record: null,
    ...more
  }
}
