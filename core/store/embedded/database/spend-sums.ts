// Adds entries of the journal up to spend: whom each belongs to, and what it adds.
import { noUsage } from '../../../money/usage.ts'
import { entryColumns } from '../rows/batch.ts'
import { smaller } from '../balance/cell.ts'
import { readObject } from './due.ts'
import type { Value } from '../files/sqlite.ts'
import { day } from '../../window.ts'

/** The classes that nearly every usage has, which have columns of their own. The others are in one. */
export const commonUnits = Object.keys(noUsage)

/** More units than any request has. A usage that has more is an upstream's mistake, and those units are left out. */
const mostUnits = 1e12

/**
 * The largest sums of costs, and of units: so far they are added up, and what would be above stays there. An upstream's
 * mistakes come to more than a column holds, or than a number counts exactly. Balances bound charges.
 */
export const mostCost = 4n * 10n ** 18n
export const mostSummed = Number.MAX_SAFE_INTEGER

/** What spend is told apart by in the database. */
export interface SpendPlace {
  /** Days since 1970 in UTC. */
  day: number
  /** As in the journal. */
  scopes: string
  tags: string
  model: string
  channel: string
  /** Versions; `costPrice` is empty where the cost is not known. */
  price: string
  costPrice: string
}

/** The sum of the entries of one place. */
export interface SpendCell {
  readonly place: SpendPlace
  requests: number
  charge: bigint
  failed: bigint
  cost: bigint
  units: Record<string, number>
}

const column = Object.fromEntries(entryColumns.map((name, index) => [name, index])) as Record<
  (typeof entryColumns)[number],
  number
>

/** Sums of entries that are not written yet. */
export class SpendSums {
  /** By the text of the scopes, which is long, and the same one in many rows. */
  readonly #scopes = new Map<string, CellsOfScopes>()
  #size = 0

  /** How many sums there are. */
  get size(): number {
    return this.#size
  }

  /** Adds an entry, whose columns are those of `entryColumns` from index `at` on. */
  add(entries: readonly Value[], at: number): void {
    const cell = this.#cellOf(entries, at)
    const amount = entries[at + column.amount] as bigint
    const cost = entries[at + column.cost] as bigint | null
    if (cost !== null) cell.cost = smaller(cell.cost + cost, mostCost)
    if (entries[at + column.kind] === 'cost') {
      cell.failed = smaller(cell.failed + amount, mostCost)
      return
    }
    cell.charge += amount
    if (entries[at + column.class] === 'terminal' && entries[at + column.part] === '') cell.requests++
    const usage = entries[at + column.usage_json]
    if (usage !== null) count(readObject(usage), cell.units, entries[at + column.kind] === 'adjust')
  }

  /** Returns the sums, and begins anew. */
  take(): SpendCell[] {
    const cells = [...this.#scopes.values()].flatMap(({ cells }) => [...cells.values()])
    this.#scopes.clear()
    this.#size = 0
    return cells
  }

  #cellOf(entries: readonly Value[], at: number): SpendCell {
    const scopes = textAt(entries, at + column.scopes)
    let known = this.#scopes.get(scopes)
    if (!known) this.#scopes.set(scopes, (known = { cells: new Map(), last: undefined }))
    const { last } = known
    if (last && isAt(last.place, entries, at)) return last
    const place = placeOf(entries, at)
    const name = `${place.day}\0${place.tags}\0${place.model}\0${place.channel}\0${place.price}\0${place.costPrice}`
    let cell = known.cells.get(name)
    if (!cell) {
      known.cells.set(name, (cell = { place, requests: 0, charge: 0n, failed: 0n, cost: 0n, units: {} }))
      this.#size++
    }
    return (known.last = cell)
  }
}

/** The sums of the same scopes, by all else that they are told apart by. */
interface CellsOfScopes {
  readonly cells: Map<string, SpendCell>
  /** The one of the last entry: most entries belong where the one before does. */
  last: SpendCell | undefined
}

function textAt(entries: readonly Value[], at: number): string {
  return (entries[at] as string | null) ?? ''
}

function dayAt(entries: readonly Value[], at: number): number {
  return Math.floor(Number(entries[at + column.ts_ms]) / day)
}

function placeOf(entries: readonly Value[], at: number): SpendPlace {
  return {
    day: dayAt(entries, at),
    scopes: textAt(entries, at + column.scopes),
    tags: textAt(entries, at + column.tags),
    model: textAt(entries, at + column.model),
    channel: textAt(entries, at + column.channel),
    price: textAt(entries, at + column.price_version),
    costPrice: textAt(entries, at + column.cost_price)
  }
}

/** Whether an entry belongs to a place with the same scopes. */
function isAt(place: SpendPlace, entries: readonly Value[], at: number): boolean {
  return (
    place.day === dayAt(entries, at) &&
    place.tags === textAt(entries, at + column.tags) &&
    place.model === textAt(entries, at + column.model) &&
    place.channel === textAt(entries, at + column.channel) &&
    place.price === textAt(entries, at + column.price_version) &&
    place.costPrice === textAt(entries, at + column.cost_price)
  )
}

/** Adds units up. Those of a correction are what it differs by, up or down. */
function count(
  usage: Readonly<Record<string, unknown>> | undefined,
  units: Record<string, number>,
  corrects: boolean
): void {
  for (const name in usage) {
    const number = usage[name] as number
    const counts = corrects ? number >= -mostUnits : number > 0
    if (Number.isSafeInteger(number) && counts && number <= mostUnits)
      units[name] = Math.min((units[name] ?? 0) + number, mostSummed)
  }
}

/** The month of a day, since the year 0; days are those since 1970 in UTC. */
export function monthOf(dayNumber: number): number {
  const date = new Date(dayNumber * day)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The first day of a month. */
export function dayOf(month: number): number {
  return Math.floor(Date.UTC(Math.floor(month / 12), month % 12) / day)
}

/** Whom a charge belongs to. A name is empty where there is none. */
export interface Spender {
  tenant: string
  project: string
  member: string
  key: string
  /** A JSON object; empty when there are none. */
  tags: string
}

/** Reads whom a charge belongs to from its scopes and tags. */
export function spenderOf({ scopes, tags }: Pick<SpendPlace, 'scopes' | 'tags'>): Spender {
  const spender: Spender = { tenant: '', project: '', member: '', key: '', tags }
  for (const scope of Object.keys(readObject(scopes) ?? {})) {
    const colon = scope.indexOf(':')
    const kind = scope.slice(0, colon)
    // A project and a member have the names of those that they belong to before their own.
    if (kind === 'tenant' || kind === 'key') spender[kind] = scope.slice(colon + 1)
    else if (kind === 'project' || kind === 'member') spender[kind] = scope.slice(scope.lastIndexOf('/') + 1)
  }
  return spender
}
