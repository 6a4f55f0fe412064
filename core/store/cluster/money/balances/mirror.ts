// What a node knows of balances: their ids, and their sums as of its last batch that changed them.
import { Cell } from '../../../embedded/balance/cell.ts'
import type { Lane } from '../../database/lane.ts'
import type { Place } from './plan.ts'

/** A balance as this node saw it last. Others change it too, so it decides nothing. */
export interface Known {
  readonly id: bigint
  readonly cell: Cell
  /** Posted, and used behind it: those of the cell. */
  readonly sums: BigInt64Array
  /** The limit that is stored. */
  limit: bigint | null
}

/** The most balances that are remembered. Those of open holds are kept by the holds. */
const most = 100_000

/** The balances that this node has used since its start. */
export class Mirror {
  readonly #lane: Lane
  readonly #known = new Map<string, Known>()
  readonly #byId = new Map<bigint, Known>()
  /** Lists of which all are known. */
  #lists = new WeakSet<readonly Place[]>()

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** A balance that was asked for before; undefined when it was not. */
  get(key: string): Known | undefined {
    return this.#known.get(key)
  }

  /** Whether all of a list are known, which is looked up once. The list does not change. */
  knows(places: readonly Place[]): boolean {
    if (this.#lists.has(places)) return true
    if (!places.every(({ key }) => this.#known.has(key))) return false
    this.#lists.add(places)
    return true
  }

  /** Learns the balances that are not known yet, and makes those that there are not. */
  async learn(places: Iterable<Place>): Promise<void> {
    if (this.#known.size > most) this.forget()
    const missing = new Map<string, Place>()
    for (const place of places) if (!this.#known.has(place.key)) missing.set(place.key, place)
    if (missing.size === 0) return
    const sorted = [...missing.values()].sort((one, other) => (one.key < other.key ? -1 : 1))
    const { rows } = await this.#lane.query<{ id: bigint; posted: bigint; pending: bigint; limit: bigint | null }>(
      'select * from sluice.money_cells_1($1, $2, $3)',
      [sorted.map(({ scope }) => scope), sorted.map(({ window }) => window), sorted.map((place) => place.hour)]
    )
    for (const [i, { id, posted, pending, limit }] of rows.entries()) {
      const { scope, window, key } = sorted[i]!
      const sums = BigInt64Array.of(posted, posted + pending)
      const known = { id, sums, limit, cell: new Cell(scope, window, limit ?? undefined, sums, 0) }
      this.#known.set(key, known)
      this.#byId.set(id, known)
    }
  }

  /** What is known may be wrong: all is asked for again. */
  forget(): void {
    this.#known.clear()
    this.#byId.clear()
    this.#lists = new WeakSet()
  }

  /** The name of a balance that is known by its id. */
  keyOf(id: bigint): string | undefined {
    const cell = this.#byId.get(id)?.cell
    return cell && `${cell.scope} ${cell.window}`
  }

  /** A limit was stored. */
  limit(id: bigint, limit: bigint | null): void {
    const known = this.#byId.get(id)
    if (known) known.limit = limit
  }

  /** Takes over what a batch has found. */
  update(ids: readonly bigint[], posted: readonly bigint[], used: readonly bigint[]): void {
    for (const [i, id] of ids.entries()) {
      const known = this.#byId.get(id)
      if (!known) continue
      known.sums[0] = posted[i]!
      known.sums[1] = used[i]!
    }
  }
}
