// The recovery: ends each hold that a crash left open, once, before the store opens. Runs in the writer thread.
import { formatDollars } from '../../../money/money.ts'
import { costOf, parsePrice, withCall } from '../../../money/price.ts'
import { chargeAbandoned, incredible } from '../../../money/settlement.ts'
import { noUsage, parsePieces, sumOf } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'
import { emptyBatch, recordValues } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import type { Committer } from '../database/committer.ts'
import type { HoldRow, Leftovers } from './leftovers.ts'
import type { RequestRecord } from '../../requests.ts'
import type { Value } from '../files/sqlite.ts'
import { Sums } from '../balance/sums.ts'

/**
 * Computes what the balances on disk lack when the store stopped between two updates of them: the journal rows since
 * the last update, and the differences in pending.
 */
export function missingMoves({ database, head }: Pick<Committer, 'database' | 'head'>): Batch['moves'] {
  const moves = new Sums()
  const rows = (sql: string, ...values: Value[]): Iterable<Record<string, Value>> => {
    const statement = database.prepare(sql)
    statement.setReadBigInts(true)
    return statement.iterate(...values) as Iterable<Record<string, Value>>
  }
  for (const row of rows(
    "SELECT scopes, ts_ms, amount FROM journal WHERE seq > ? AND kind <> 'cost'",
    head.balancedSeq
  )) {
    moves.add(row['scopes'] as string, Number(row['ts_ms']), row['amount'] as bigint, 0n)
  }
  for (const row of rows('SELECT scope, window, pending FROM balance WHERE pending <> 0')) {
    moves.of(row['scope'] as string, row['window'] as string).pending -= row['pending'] as bigint
  }
  for (const row of rows('SELECT scopes, ts_ms, amount FROM reservation')) {
    moves.add(row['scopes'] as string, Number(row['ts_ms']), 0n, row['amount'] as bigint)
  }
  return [...moves].flatMap(({ scope, window, posted, pending }) =>
    posted === 0n && pending === 0n ? [] : [scope, window, posted, pending]
  )
}

/** The result of a recovery. */
export interface Recovered {
  /** How many holds were ended. */
  ended: number
  /** How many of them had a usage that cannot be true. */
  doubted: number
}

/**
 * Ends what was left open. A hold that was never dispatched is given back. Any other is charged the estimated input,
 * what else was counted of the request, and the output that was delivered. `written` in Unix milliseconds.
 */
export function recover(left: Leftovers, written: number): Recovered {
  const recovered: Recovered = { ended: 0, doubted: 0 }
  // Parts are ended first, because the record of an exchange includes the charges of all its parts.
  for (const whole of [false, true])
    for (let rows = left.next(whole); rows.length > 0; rows = left.next(whole)) {
      const batch = emptyBatch(0, written)
      batch.balanced = true
      const moves = new Sums()
      for (const row of rows) end(row, batch, moves, left, () => recovered.doubted++)
      batch.moves = moves.moves()
      left.end(batch)
      recovered.ended += rows.length
    }
  return recovered
}

function end(row: HoldRow, batch: Batch, moves: Sums, left: Pick<Leftovers, 'partsOf'>, doubt: () => void): void {
  const time = Number(row.ts_ms)
  const price = parsePrice(row.price_version, row.price)
  const charged = row.dispatched
    ? chargeAbandoned(
        { input: Number(row.input_units), maxOutput: Number(row.max_out), pieces: parsePieces(row.pieces) },
        Number(row.delivered_units),
        { amount: row.amount, price },
        doubt
      )
    : undefined
  const own = charged && row.own !== null ? parsePrice(row.cost_price!, row.own) : undefined
  const { amount } = charged ?? { amount: 0n }
  const usage = charged && own ? withCall(charged.usage, own) : charged?.usage
  const cost = own ? costOf(usage!, own) : undefined
  const known = cost !== undefined && cost <= incredible
  batch.closed.push(Number(row.id))
  batch.entries.push(
    usage ? 'settle' : 'void',
    row.request_id,
    row.part,
    'terminal',
    row.scopes,
    amount,
    row.amount,
    usage ? JSON.stringify(usage) : null,
    row.model,
    row.channel,
    row.price_version,
    charged?.source ?? null,
    time,
    row.tags,
    known ? cost : null,
    known ? row.cost_price : null
  )
  moves.add(row.scopes, time, amount, -row.amount)
  if (row.part !== '') return
  let [all, total] = [usage, amount]
  for (const { usage_json, amount: charged } of left.partsOf(row.request_id)) {
    total += charged
    all = sumOf(all ?? noUsage, JSON.parse(usage_json) as Usage)
  }
  const { request_id: requestId, scopes, model, price_version: priceVersion, channel, endpoint } = row
  const abandoned = {
    requestId,
    scopes,
    amount: row.amount,
    model,
    priceVersion,
    channel,
    endpoint,
    clientProtocol: row.client_protocol,
    streamed: row.streamed === 1n,
    time
  }
  batch.records.push(...recordValues(recoveredRecord(abandoned, all, total)))
}

/** What the record of an exchange says that its process did not end. */
export interface Abandoned {
  readonly requestId: string
  /** As stored. */
  readonly scopes: string
  readonly amount: bigint
  readonly model: string
  readonly priceVersion: string
  readonly channel: string | null
  readonly endpoint: string | null
  readonly clientProtocol: string | null
  readonly streamed: boolean
  /** Unix milliseconds. */
  readonly time: number
}

/** Makes that record. `usage`: what was charged, if anything was. */
export function recoveredRecord(
  { requestId, scopes: stored, amount: reserved, model, priceVersion, channel, ...row }: Abandoned,
  usage: Usage | undefined,
  amount: bigint
): RequestRecord {
  const scopes = Object.keys(JSON.parse(stored) as object)
  const name = (kind: string): string | null => {
    const id = scopes.find((scope) => scope.startsWith(`${kind}:`))
    if (id === undefined) return null
    return id.slice(id.startsWith('project:') || id.startsWith('member:') ? id.lastIndexOf('/') + 1 : kind.length + 1)
  }
  return {
    request_id: requestId,
    time: new Date(row.time).toISOString(),
    tenant: name('tenant'),
    project: name('project'),
    member: name('member'),
    key: name('key'),
    model,
    requested_model: null,
    endpoint: row.endpoint ?? 'unknown',
    client_protocol: row.clientProtocol ?? 'unknown',
    channel,
    channel_protocol: null,
    status: 500,
    error_code: 'internal_error',
    outcome: 'failed',
    streamed: row.streamed,
    usage: usage ?? null,
    usage_source: usage ? 'recovered' : null,
    cost_usd: formatDollars(amount),
    cost_nano: String(amount),
    price_version: usage ? priceVersion : null,
    reserved_nano: String(reserved),
    attempts: channel === null ? [] : [{ channel, error_code: 'internal_error', duration_ms: 0 }],
    first_byte_ms: null,
    duration_ms: 0,
    client_request_id: null,
    recovered: true
  }
}

/** Whether a record was made by {@link recoveredRecord}. Older ones have no mark, and do not say where time went. */
export function isRecovered({ recovered, times, duration_ms: duration, outcome, status }: RequestRecord): boolean {
  return recovered ?? (times === undefined && duration === 0 && outcome === 'failed' && status === 500)
}
