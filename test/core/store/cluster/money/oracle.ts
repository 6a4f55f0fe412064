// What tests of the shared book do to it, and what it should say: counted apart from it.
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../core/errors.ts'
import type { Ledger, Reservation, ReserveRequest, Settlement } from '../../../../../core/store/ledger.ts'
import { sharedPostgres } from '../../../../kit/postgres.ts'
import { noon, price, used } from '../../embedded/sample.ts'

let made = 0

/** A request for an amount; its estimate is 10 tokens of input at 2 nano-dollars. */
export function requestFor(
  scopes: readonly Scope[],
  amount: bigint,
  more: Partial<ReserveRequest> = {}
): ReserveRequest {
  return {
    requestId: `request ${process.pid} ${++made}`,
    scopes,
    amount,
    model: 'gpt-5',
    price,
    estimate: { input: 10, maxOutput: 1000 },
    time: noon,
    ...more
  }
}

/** Holds an amount. */
export async function hold(
  ledger: Ledger,
  scopes: readonly Scope[],
  amount: bigint,
  more: Partial<ReserveRequest> = {}
): Promise<Reservation> {
  return ledger.reserve(requestFor(scopes, amount, more))
}

/** A charge of so many tokens of output, at one nano-dollar each. */
export function charge(amount: number): Settlement {
  return { usage: used(amount), amount: BigInt(amount), source: 'upstream', channel: 'openai' }
}

/** The error that something is refused with. */
export async function refusal(run: Promise<unknown>): Promise<GatewayError> {
  try {
    await run
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('it was not refused')
}

/** What the journal says of ends, by request: kind, amount and source. */
export async function endsIn(url: string): Promise<Map<string, string[]>> {
  const server = await sharedPostgres()
  return endsBy((query) => server.sql(query, url))
}

/** The corrections of ends in the journal, by request. */
export async function correctionsIn(url: string): Promise<Record<string, number>> {
  const server = await sharedPostgres()
  const rows = await server.sql(`select request_id, amount::int from sluice.journal where kind = 'adjust'`, url)
  return Object.fromEntries(rows.map(({ request_id: id, amount }) => [id, amount]))
}

/** As {@link endsIn}, of another server. */
export async function endsBy(sql: (query: string) => Promise<any[]>): Promise<Map<string, string[]>> {
  const ends = new Map<string, string[]>()
  for (const { request_id: id, kind, amount, source } of await sql(
    `select request_id, kind, amount::text, source from sluice.journal where class = 'terminal' order by request_id, part`
  ))
    ends.set(id, [...(ends.get(id) ?? []), [kind, amount, ...(source === null ? [] : [source])].join(' ')])
  return ends
}
