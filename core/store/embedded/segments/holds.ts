// The open holds of a state, and what was charged for parts of requests that go on.
import type { Usage } from '../../../money/usage.ts'
import { ChargedParts } from '../balance/charged-parts.ts'
import type { PartCharges } from '../balance/charged-parts.ts'
import { entryColumns, holdColumns, touchColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import type { Value } from '../files/sqlite.ts'

/** An open hold. */
export interface OpenHold {
  /** Its values in the order of {@link holdColumns}. */
  readonly row: Value[]
  /** The start that opened it. */
  readonly boot: number
  /** Until when it is kept, when it was detached. Unix milliseconds. */
  lease: number | null
}

const at = Object.fromEntries(holdColumns.map((name, i) => [name, i])) as Record<(typeof holdColumns)[number], number>
/** Where a hold has what changes while it is open. Its dispatch follows from its channel. */
const changing = touchColumns.slice(0, -1).map((name) => at[name as (typeof holdColumns)[number]])

const [requestColumn, partColumn, amountColumn, usageColumn, kindColumn] = (
  ['request_id', 'part', 'amount', 'usage_json', 'kind'] as const
).map((name) => entryColumns.indexOf(name)) as [number, number, number, number, number]

/** The name of a hold or an end: a request may have one for itself, and one for each part. */
export function nameOf(requestId: string, part: string): string {
  return part === '' ? requestId : `${requestId} ${part}`
}

/** The holds that are open. */
export class OpenHolds implements Iterable<OpenHold> {
  readonly #byId = new Map<number, OpenHold>()
  readonly #byName = new Map<string, OpenHold>()
  readonly #parts = new ChargedParts()

  get size(): number {
    return this.#byId.size
  }

  /** What was charged for parts, by the ids of requests that have not ended. */
  get parts(): ReadonlyMap<string, PartCharges> {
    return this.#parts
  }

  /** The hold of a request or a part of one. */
  find(requestId: string, part: string): OpenHold | undefined {
    return this.#byName.get(nameOf(requestId, part))
  }

  /**
   * Opens one.
   * @throws Error when its id or its name is in use
   */
  open(hold: OpenHold): void {
    const { row } = hold
    const [id, name] = [row[at.id] as number, nameOf(row[at.request_id] as string, row[at.part] as string)]
    if (this.#byId.has(id) || this.#byName.has(name)) throw new Error(`${name} is held already, or row ${id} is in use`)
    this.#byId.set(id, hold)
    this.#byName.set(name, hold)
  }

  /** Notes the progress of holds: {@link Batch.touched}. One that is not open is passed over. */
  touch(touched: Batch['touched']): void {
    for (let i = 0; i < touched.length; i += touchColumns.length) {
      const row = this.#byId.get(touched[i + touchColumns.length - 1] as number)?.row
      if (!row) continue
      row[at.dispatched] = touched[i] === null ? 0 : 1
      // Earlier formats of frames had no model and no price here: those stay.
      changing.forEach((column, at) => (row[column] = at < 2 ? touched[i + at]! : (touched[i + at] ?? row[column]!)))
    }
  }

  /** Notes until when holds are kept: {@link Batch.leased}. */
  lease(leased: Batch['leased']): void {
    for (let i = 0; i < leased.length; i += 2) {
      const hold = this.#byId.get(leased[i + 1]!)
      if (hold) hold.lease = leased[i]!
    }
  }

  /** Takes a hold away as its end is in the journal: the row at index `i` of `entries`. Returns the hold, if any. */
  end(entries: Batch['entries'], i: number): OpenHold | undefined {
    const [requestId, part] = [entries[i + requestColumn] as string, entries[i + partColumn] as string]
    if (part === '') this.#parts.delete(requestId)
    else if (entries[i + kindColumn] === 'settle')
      this.charge(requestId, entries[i + amountColumn] as bigint, entries[i + usageColumn] as string)
    const name = nameOf(requestId, part)
    const hold = this.#byName.get(name)
    if (!hold) return undefined
    this.#byName.delete(name)
    this.#byId.delete(hold.row[at.id] as number)
    return hold
  }

  /** Adds a charge for a part of a request. */
  charge(requestId: string, amount: bigint, usage: string): void {
    this.#parts.charge(requestId, amount, JSON.parse(usage) as Usage)
  }

  /** Drops the charges of parts whose request has no hold: a new start has ended all that was not kept. */
  forgetParts(): void {
    for (const requestId of this.#parts.keys()) if (!this.#byName.has(requestId)) this.#parts.delete(requestId)
  }

  [Symbol.iterator](): Iterator<OpenHold> {
    return this.#byId.values()
  }
}

/** The scopes, the time and the amount of a hold. */
export function heldBy({ row }: OpenHold): { scopes: string; time: number; amount: bigint } {
  return { scopes: row[at.scopes] as string, time: row[at.ts_ms] as number, amount: row[at.amount] as bigint }
}
