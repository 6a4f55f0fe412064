// What a start finds open in the state of a journal.
import type { Batch } from '../rows/batch.ts'
import { holdColumns, workColumns } from '../rows/batch.ts'
import type { Row, Value } from '../files/sqlite.ts'
import type { Fold } from '../segments/fold.ts'
import type { OpenHold } from '../segments/holds.ts'
import type { Work } from '../../works.ts'
import { chunk } from './leftovers.ts'
import type { HoldRow, Leftovers, PartRow } from './leftovers.ts'

/** A hold as a row of the table reservation, integers as bigint. */
export function rowOf({ row, boot, lease }: OpenHold): Row {
  const values = Object.fromEntries(holdColumns.map((name, i) => [name, wide(row[i]!)]))
  return { ...values, boot_id: BigInt(boot), lease_until: wide(lease) }
}

/** The open hold that such a row is. */
export function holdOf(row: Row): OpenHold {
  const values = holdColumns.map((name) => (name === 'amount' ? row[name]! : narrow(row[name]!)))
  return { row: values, boot: Number(row['boot_id']), lease: narrow(row['lease_until']!) as number | null }
}

function narrow(value: Value): Value {
  return typeof value === 'bigint' ? Number(value) : value
}

function wide(value: Value): Value {
  return typeof value === 'number' ? BigInt(value) : value
}

/** Leftovers of a state, whose ends are written by `end`. */
export class FoldedLeftovers implements Leftovers {
  readonly end: (batch: Batch) => void
  readonly #fold: Fold
  readonly #now: number
  readonly #kept: ReadonlySet<string>
  /** What is left, and whether it is of whole exchanges. */
  #left: HoldRow[] = []
  #whole: boolean | undefined

  /** `now` in Unix milliseconds. The holds of the requests `kept` are none. `end` brings the ends into the state. */
  constructor(fold: Fold, now: number, kept: readonly string[], end: (batch: Batch) => void) {
    this.#fold = fold
    this.#now = now
    this.#kept = new Set(kept)
    this.end = end
  }

  next(whole: boolean): readonly HoldRow[] {
    if (this.#whole !== whole) {
      this.#whole = whole
      this.#left = this.#find(whole)
    }
    return this.#left.splice(0, chunk)
  }

  partsOf(requestId: string): readonly PartRow[] {
    const charges = this.#fold.holds.parts.get(requestId)
    return charges ? [{ amount: charges.amount, usage_json: JSON.stringify(charges.usage) }] : []
  }

  #find(whole: boolean): HoldRow[] {
    const { holds, prices } = this.#fold
    const rows: HoldRow[] = []
    let working: ReadonlySet<string> | undefined
    for (const hold of holds) {
      if (hold.lease !== null && hold.lease >= this.#now) continue
      if (hold.lease !== null && (working ??= this.#requestsWithWork()).has(rowOf(hold)['request_id'] as string))
        continue
      const row = rowOf(hold) as unknown as HoldRow
      if ((row.part === '') !== whole || this.#kept.has(row.request_id)) continue
      const own = row.cost_price === null ? undefined : prices.get(row.cost_price)
      rows.push({ ...row, price: prices.get(row.price_version)!, own: own ?? null })
    }
    return rows.sort((one, other) => Number(one.id - other.id))
  }

  #requestsWithWork(): ReadonlySet<string> {
    const json = workColumns.indexOf('json')
    return new Set([...this.#fold.works.values()].map((row) => (JSON.parse(row[json] as string) as Work).requestId))
  }
}
