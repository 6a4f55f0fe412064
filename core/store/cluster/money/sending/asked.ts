// The holds that a batch asks for: their rows, column by column, and by kind what they count in.
import { holdColumns } from '../../../embedded/rows/batch.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { mostHeld, smaller } from '../../../embedded/balance/cell.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { Place, Plan } from '../balances/plan.ts'
import type { Taken } from '../slices/slices.ts'
import type { Positions } from './positions.ts'

/** The columns of a hold that its kind does not have. */
const columns = (
  [
    'model',
    'price_version',
    'cost_price',
    'input_units',
    'max_out',
    'pieces',
    'channel',
    'delivered_units',
    'endpoint',
    'client_protocol',
    'streamed',
    'ts_ms'
  ] as const
).map((name) => holdColumns.indexOf(name))
const [scopesAt, tagsAt] = [holdColumns.indexOf('scopes'), holdColumns.indexOf('tags')]

/** The most that an amount is sent as: beyond what any balance can have all are one, which is refused. */
const mostAsked = mostHeld + 1n

/** A hold, as it is asked for. */
export interface AskedHold {
  readonly requestId: string
  readonly part: string
  readonly amount: bigint
  /** In the order of {@link holdColumns}; undefined where it is written with its end, and never open. */
  readonly row: readonly Value[] | undefined
  readonly places: readonly Place[]
}

/** What holds have in common that count in the same, and have the same of it from slices of this node. */
interface Kind {
  /** Of its budgets: whether slices have the amount. */
  readonly own: readonly boolean[]
  readonly counts: readonly number[]
  /** The positions of what counts against each of its budgets, with their limits and the balances of the slices. */
  readonly caps: readonly number[]
  readonly limits: readonly bigint[]
  readonly cells: readonly number[]
  /** Columns of its holds: the ids of balances, scopes and tags. */
  readonly ids: string
  scopes: Value
  tags: Value
}

/** Those of one batch, in the order in which they are decided on. */
export class Asked {
  readonly #at: Positions
  readonly #mirror: Mirror
  readonly #kinds: Kind[] = []
  readonly #byPlaces = new Map<readonly Place[], number[]>()
  readonly #holds: AskedHold[] = []
  /** The kind of each, from 1 on. */
  readonly #kindsOf: number[] = []
  /** Those that follow each other, are of one kind and end alike: where they end, and what they come to. */
  readonly #runsTo: number[] = []
  readonly #runAmounts: bigint[] = []

  constructor(at: Positions, mirror: Mirror) {
    this.#at = at
    this.#mirror = mirror
  }

  /** `plan`: its budgets, none for one that is held whatever they say. `taken`: what slices have of them. */
  add(hold: AskedHold, plan?: Plan, taken: Taken = []): void {
    const amount = smaller(hold.amount, mostAsked)
    const kind = this.#kindOf(hold, plan, taken)
    const last = this.#runsTo.length - 1
    const before = this.#holds.at(-1)
    this.#holds.push(hold)
    if (before && this.#kindsOf.at(-1) === kind && (before.row === undefined) === (hold.row === undefined)) {
      this.#runsTo[last]!++
      this.#runAmounts[last] = smaller(this.#runAmounts[last]! + amount, mostAsked)
    } else {
      this.#runsTo.push(this.#holds.length)
      this.#runAmounts.push(amount)
    }
    this.#kindsOf.push(kind)
  }

  #kindOf({ places, row }: AskedHold, plan: Plan | undefined, taken: Taken): number {
    let some = this.#byPlaces.get(places)
    if (!some) this.#byPlaces.set(places, (some = []))
    const limits = plan?.limits ?? []
    const found = some.find((kind) => {
      const { own } = this.#kinds[kind - 1]!
      return own.length === limits.length && own.every((one, i) => one === (taken[i] !== undefined))
    })
    const kind = found ?? this.#kinds.length + 1
    if (found === undefined) {
      some.push(kind)
      this.#kinds.push({
        own: limits.map((_, i) => taken[i] !== undefined),
        counts: this.#at.counts(places),
        caps: limits.map((limit) => this.#at.used(limit)),
        limits: limits.map(({ limit }) => limit),
        cells: limits.map(({ key }) => this.#at.of(key)),
        ids: `{${places.map(({ key }) => this.#mirror.get(key)!.id).join(',')}}`,
        scopes: null,
        tags: null
      })
    }
    if (row) [this.#kinds[kind - 1]!.scopes, this.#kinds[kind - 1]!.tags] = [row[scopesAt]!, row[tagsAt]!]
    return kind
  }

  /** The positions of what counts against the budgets of one of them, by its number from 0 on. */
  caps(i: number): readonly number[] {
    return this.#kinds[this.#kindsOf[i]! - 1]!.caps
  }

  /** Arguments of a batch: names, amounts and kinds of holds, runs of them, kinds, and the other columns. */
  get values(): unknown[] {
    const [holds, kinds] = [this.#holds, this.#kinds]
    const lengths = (of: (kind: Kind) => readonly unknown[]): number[] => {
      let sum = 0
      return kinds.map((kind) => (sum += of(kind).length))
    }
    return [
      holds.map(({ requestId }) => requestId),
      holds.map(({ part }) => part),
      holds.map(({ amount }) => smaller(amount, mostAsked)),
      holds.map(({ row }) => row === undefined),
      this.#kindsOf,
      this.#runsTo,
      this.#runAmounts,
      kinds.flatMap(({ counts }) => counts),
      lengths(({ counts }) => counts),
      kinds.flatMap(({ caps }) => caps),
      kinds.flatMap(({ limits }) => limits),
      lengths(({ caps }) => caps),
      kinds.flatMap(({ cells }) => cells),
      kinds.flatMap(({ own }) => own),
      kinds.map(({ ids }) => ids),
      kinds.map(({ scopes }) => scopes),
      kinds.map(({ tags }) => tags),
      ...columns.map((at) => holds.map(({ row }) => row?.[at] ?? null))
    ]
  }
}
