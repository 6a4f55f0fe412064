// Charges that records tell of and that were never made, as the database never had the holds for them.
import { formatDollars } from '../../../money/money.ts'
import { noUsage, sumOf } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'
import type { RequestRecord } from '../../requests.ts'
import type { Line } from './line.ts'

/** How many requests are remembered. The record of one may have been dropped, and then nobody asks for it. */
const most = 10_000

/** What a request, or a part of one, would have been charged. */
export interface Charge {
  readonly amount: bigint
  readonly usage: Readonly<Usage>
}

/** The charges that were not made, by the requests of which they would have been. */
export class Uncharged {
  readonly #charges = new Map<string, Charge[]>()

  add(requestId: string, charge: Charge): void {
    if (this.#charges.size >= most) this.#charges.delete(this.#charges.keys().next().value!)
    this.#charges.set(requestId, [...(this.#charges.get(requestId) ?? []), charge])
  }

  has(requestId: string): boolean {
    return this.#charges.has(requestId)
  }

  /** A record as what was charged. It may be asked for again, as a record may have to be written again. */
  takenFrom(line: Line): Line {
    const charges = this.#charges.get(line.record.request_id)
    if (!charges) return line
    const record = charges.reduce(without, line.record)
    return { ...line, record, json: JSON.stringify(record) }
  }
}

function without(record: RequestRecord, { amount, usage }: Charge): RequestRecord {
  const cost = BigInt(record.cost_nano) - amount
  const negative = Object.fromEntries(Object.entries(usage).map(([name, units]) => [name, -units]))
  const left = sumOf(record.usage ?? noUsage, { ...noUsage, ...negative })
  const counted = Object.values(left).some((units) => units > 0)
  return {
    ...record,
    cost_nano: String(cost),
    cost_usd: formatDollars(cost),
    usage: counted ? left : null,
    usage_source: counted ? record.usage_source : null,
    price_version: counted ? record.price_version : null
  }
}
