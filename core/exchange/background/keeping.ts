// What is kept of an exchange with its work, so that whoever ends the work after a crash has all that its end takes.
import { recordOf } from '../../contract/record.ts'
import { reservation, spent } from '../../contract/slots.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { RequestRecord } from '../../store/requests.ts'
import type { KeptCost, Work } from '../../store/works.ts'

/** Milliseconds after its deadline for which the hold of work is kept: whoever sees to it ends it before. */
const grace = 86_400_000

/** Has the hold of an exchange be kept for its work; resolves when that is on disk. */
export function keepHold(exchange: Exchange, { deadline }: Work): Promise<void> | undefined {
  return exchange.find(reservation)?.detach(deadline + grace)
}

/** Of an exchange whose releases begin now: resolves when the end of its hold is on disk, or could not be written. */
export async function holdEnd(exchange: Exchange): Promise<void> {
  // Until all releases have begun it has not ended.
  await Promise.resolve()
  await exchange.find(reservation)?.durable.catch(() => {})
}

/** The record of an exchange that is under way, as far as it is known: a crash leaves no other one. */
export function recordSoFar(exchange: Exchange): RequestRecord {
  return recordOf(exchange, {
    kind: 'completed',
    status: 200,
    error: undefined,
    bytes: 0,
    firstByteMs: undefined,
    durationMs: 0
  })
}

/** What attempts before the present one have cost, as it is kept with the work. */
export function costsOf(exchange: Exchange): readonly KeptCost[] | null {
  return (
    exchange
      .find(spent)?.()
      ?.map((cost) => ({ ...cost, amount: String(cost.amount) })) ?? null
  )
}
